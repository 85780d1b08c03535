//! The methods of clients of drivers that are the same in all of them. They are in macros, because their types belong to the
//! drivers.

/// The methods of a driver's `Builder` for every kind of server. `driver` is the name of the crate in examples.
#[doc(hidden)]
#[macro_export]
macro_rules! client_builder_methods {
    (driver: $driver:literal) => {
        /// Sets the name and the version of the application, which are sent to the server as `clientInfo`.
        pub fn name(mut self, name: &str, version: &str) -> Self {
            self.config.client_info = ::mcp_proto::client::Config::new(name, version).client_info;
            self
        }

        /// Declares what the server may request, as the object `capabilities` of `initialize`, or of every request in
        /// 2026-07-28. Default: nothing.
        pub fn capabilities(mut self, capabilities: impl Into<::mcp_proto::Json>) -> Self {
            self.config.capabilities = capabilities.into();
            self
        }

        /// Declares that this client shows the pages of MCP Apps, besides what [`Builder::capabilities`] has declared
        /// before: see [`Client::read_app`].
        pub fn show_apps(self) -> Self {
            let (id, settings) = $crate::apps_extension();
            self.extension(id, settings)
        }

        /// Declares a protocol extension with its settings, besides what [`Builder::capabilities`] has declared before.
        ///
        /// # Example
        ///
        /// ```
        #[doc = concat!("use ", $driver, "::Client;")]
        #[doc = concat!("use ", $driver, "::model::JsonObject;")]
        ///
        /// let builder = Client::builder().extension("com.example/search", JsonObject::new().with("pages", true));
        /// ```
        pub fn extension(mut self, id: &str, settings: ::mcp_model::JsonObject) -> Self {
            self.config.capabilities = $crate::with_extension(&self.config.capabilities, id, settings);
            self
        }

        /// Calls a function for each request of the application before it is sent. It returns the request that is sent, and a
        /// function that receives the outcome and returns the one for the caller; or an error for the caller, and then nothing
        /// is sent. Of several functions, the one that was added first sees a request first and its outcome last. A request that
        /// could not be sent, or whose [`InFlight`](crate::InFlight) was dropped, has no outcome. The requests that
        /// [`Client::call_tool_as_task`] sends are passed to the function as well.
        ///
        /// # Example: a limit, and a log
        ///
        /// ```
        #[doc = concat!("use ", $driver, "::Client;")]
        #[doc = concat!("use ", $driver, "::proto::Json;")]
        ///
        /// let builder = Client::builder().around_calls(|call| {
        ///     let method = call.method().clone();
        ///     let call = call.timeout(std::time::Duration::from_secs(5));
        #[doc = concat!("    Ok((call, move |outcome: Result<Json, ", $driver, "::Error>| {")]
        ///         eprintln!("{method}: {}", if outcome.is_ok() { "done" } else { "failed" });
        ///         outcome
        ///     }))
        /// });
        /// ```
        pub fn around_calls<A>(
            mut self,
            hook: impl Fn(::mcp_proto::client::Call) -> Result<(::mcp_proto::client::Call, A), Error>
            + Send
            + Sync
            + 'static,
        ) -> Self
        where
            A: FnOnce(Result<::mcp_proto::Json, Error>) -> Result<::mcp_proto::Json, Error> + Send + 'static,
        {
            self.hooks.add(hook);
            self
        }

        /// Sets the handler of the server's notifications and requests. Default: they are ignored and refused.
        pub fn handler(mut self, handler: impl Handler) -> Self {
            self.handler = ::std::sync::Arc::new(handler);
            self
        }

        /// Sets how long a response may take. Default 60 s. Progress extends it, up to [`Config::max_timeout`].
        pub fn request_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.config.request_timeout = timeout;
            self
        }

        /// Caches results for as long as the server allows, in at most this many bytes ([`Config::cache`]). Default 0:
        /// nothing is cached.
        pub fn cache(mut self, bytes: usize) -> Self {
            self.config.cache = bytes;
            self
        }

        /// Sets the protocol revisions that may be used. Default: all, so that the newest revision of both sides is
        /// used.
        ///
        /// With 2026-07-28 and an older one, the client first sends `server/discover` to detect what the server
        /// supports. That is one more request to an older server; a server on a byte stream that does not answer it
        /// delays the connection by [`Config::discover_timeout`], by default 10 s. Without 2026-07-28, the connection
        /// begins with `initialize`.
        ///
        /// # Example: a server that is known to begin with `initialize`
        ///
        /// ```
        #[doc = concat!("use ", $driver, "::Client;")]
        #[doc = concat!("use ", $driver, "::proto::ProtocolVersion;")]
        ///
        /// let builder = Client::builder().versions([ProtocolVersion::V2025_11_25]);
        /// ```
        pub fn versions(mut self, versions: impl IntoIterator<Item = ::mcp_proto::ProtocolVersion>) -> Self {
            self.config.versions = versions.into_iter().collect();
            self
        }

        /// Changes the configuration of the machine, for settings without a method of their own.
        pub fn configure(mut self, change: impl FnOnce(&mut ::mcp_proto::client::Config)) -> Self {
            change(&mut self.config);
            self
        }
    };
}

/// The methods of a driver's `Builder` for a server over HTTP. `exchange` states what an exchange needs, and `fetch` sends
/// a request with options to the server. In a driver with a runtime, `asynchronous` is `[async] [.await]`.
#[doc(hidden)]
#[macro_export]
macro_rules! http_client_builder_methods {
    (
        driver: $driver:literal,
        asynchronous: [$($async:ident)?] [$($await:tt)*],
        exchange: $exchange:literal,
        fetch: $fetch:path
    ) => {
        /// Reads the card of the server: what can be known about it before a client connects. `None` if it has none.
        ///
        /// The request has the headers of [`Builder::header`], and no token of a sign-in, since a card is public. What it states
        /// proves nothing: what the server says once it is connected counts. SEP-2127, which states this, is a draft.
        ///
        /// # Errors
        ///
        /// [`Error::Card`] if there is no answer within 10 seconds or the timeout of requests, or no card, and
        /// [`Error::SetUp`] if the HTTP client could not be set up.
        ///
        /// # Example
        ///
        /// ```no_run
        #[doc = concat!("# ", stringify!($($async)?), " fn example() -> Result<(), ", $driver, "::Error> {")]
        #[doc = concat!("use ", $driver, "::Client;")]
        ///
        #[doc = concat!(
            "let card = Client::builder().http(\"https://example.com/mcp\")?.server_card()",
            stringify!($($await)*),
            "?;"
        )]
        /// println!("{}", card.map_or("there is no card".to_owned(), |card| card.description));
        /// # Ok(())
        /// # }
        /// ```
        pub $($async)? fn server_card(self) -> Result<Option<::mcp_model::ServerCard>, Error> {
            let (http, options) = (self.server.http, self.server.options);
            let failed = |reason: $crate::CardFailure| reason.into_error(&format!("the server at {}", http.server()));
            let timeout = self.config.request_timeout.min($crate::CARD_TIMEOUT);
            let request = $crate::card_request(&http);
            let response = $fetch(options, &http, request, $crate::MAX_CARD, timeout)$($await)*?;
            let response = response.map_err(|error| failed($crate::CardFailure::NotFetched(error.into())))?;
            $crate::read_card(&response).map_err(failed)
        }

        /// Adds a header to every request to the server's origin. Requests to other origins do not get it.
        ///
        /// # Errors
        ///
        /// [`Error::Usage`] if the protocol sets that header itself, or if its characters are not valid in a header.
        pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
            self.server.http.header(name, value)?;
            Ok(self)
        }

        /// Authorizes every request with a bearer token.
        ///
        /// # Errors
        ///
        /// [`Error::Usage`] if the token has characters that are not valid in a header.
        pub fn bearer(self, token: &str) -> Result<Self, Error> {
            self.header("Authorization", &format!("Bearer {token}"))
        }

        /// Signs in when the server demands it, and sends the tokens with every request. Messages wait meanwhile.
        ///
        /// # Example
        ///
        /// ```no_run
        #[doc = concat!("use ", $driver, "::Client;")]
        #[doc = concat!("use ", $driver, "::sign_in::{Authorization, FileStore};")]
        ///
        #[doc = concat!("# fn example() -> Result<(), ", $driver, "::Error> {")]
        /// let url = "https://example.com/mcp";
        /// let authorization = Authorization::new(url, "my-app")?
        ///     .store(FileStore::new(".tokens".as_ref()))
        ///     .open_url(|url| eprintln!("Open {url} to sign in."));
        /// let builder = Client::builder().http(url)?.authorization(authorization);
        /// # Ok(())
        /// # }
        /// ```
        pub fn authorization(mut self, authorization: Authorization) -> Self {
            self.server.http.managed_authorization = true;
            self.server.authorization = Some(authorization);
            self
        }

        /// Sets how many requests the server may have at one time. Default 48. A further request waits, within its
        /// timeout, and the handler receives [`Observation::RequestWaits`](crate::Observation::RequestWaits).
        ///
        /// This sets [`Limits::exchanges`](mcp_proto::Limits::exchanges).
        #[doc = $exchange]
        pub fn max_requests(mut self, count: usize) -> Self {
            self.config.limits.exchanges = ::mcp_proto::Limits::exchanges_for(count);
            self
        }

        /// Changes the configuration of the transport, for settings without a method of their own.
        pub fn configure_http(mut self, change: impl FnOnce(&mut ::mcp_proto::client::HttpConfig)) -> Self {
            change(&mut self.server.http);
            self
        }

        /// Sets the options of the HTTP client: timeouts, certificates and proxies.
        pub fn http_options(mut self, options: HttpOptions) -> Self {
            self.server.options = options;
            self
        }
    };
}

/// The calls of a driver's `Client` with typed parameters and results. In a driver with a runtime, `asynchronous` is
/// `[async] [.await]`; `example` are the lines of the example of `call_tool` that differ.
#[doc(hidden)]
#[macro_export]
macro_rules! typed_calls {
    (asynchronous: [$($async:ident)?] [$($await:tt)*], example: $example:literal) => {
        /// The settings with which the server has declared the extension of this id; `None` if it has not.
        #[must_use]
        pub fn server_extension(&self, id: &str) -> Option<::mcp_model::JsonObject> {
            $crate::extension_in(&self.initialize_result().first_member("capabilities")?, id)
        }

        /// Lists the tools of the page at `cursor`; `None` is the first page.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`].
        pub $($async)? fn list_tools(
            &self,
            cursor: Option<&str>,
        ) -> Result<::mcp_model::ListToolsResult, $crate::Error> {
            self.request_as::<::mcp_model::ListToolsRequest>(&$crate::page(cursor))$($await)*
        }

        /// Lists the prompts of the page at `cursor`; `None` is the first page.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`].
        pub $($async)? fn list_prompts(
            &self,
            cursor: Option<&str>,
        ) -> Result<::mcp_model::ListPromptsResult, $crate::Error> {
            self.request_as::<::mcp_model::ListPromptsRequest>(&$crate::page(cursor))$($await)*
        }

        /// Lists the resources of the page at `cursor`; `None` is the first page.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`].
        pub $($async)? fn list_resources(
            &self,
            cursor: Option<&str>,
        ) -> Result<::mcp_model::ListResourcesResult, $crate::Error> {
            self.request_as::<::mcp_model::ListResourcesRequest>(&$crate::page(cursor))$($await)*
        }

        /// Lists the resource templates of the page at `cursor`; `None` is the first page.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`].
        pub $($async)? fn list_resource_templates(
            &self,
            cursor: Option<&str>,
        ) -> Result<::mcp_model::ListResourceTemplatesResult, $crate::Error> {
            self.request_as::<::mcp_model::ListResourceTemplatesRequest>(&$crate::page(cursor))$($await)*
        }

        /// Calls a tool. `arguments` is a value whose JSON is an object, or `()` for none.
        ///
        /// A tool that fails returns a result with [`is_error`](mcp_model::CallToolResult::is_error), which is no
        /// [`Error`](crate::Error).
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`], and [`Error::Arguments`](crate::Error::Arguments).
        ///
        /// # Example
        ///
        /// ```no_run
        /// #[derive(serde::Serialize)]
        /// struct Place {
        ///     city: &'static str,
        /// }
        ///
        #[doc = $example]
        /// # Ok(())
        /// # }
        /// ```
        pub $($async)? fn call_tool(
            &self,
            name: &str,
            arguments: impl ::serde::Serialize,
        ) -> Result<::mcp_model::CallToolResult, $crate::Error> {
            self.request_as::<::mcp_model::CallToolRequest>(&$crate::tool_call(name, arguments)?)$($await)*
        }

        /// Calls a tool, and validates the arguments and the structured result by its schemas. The tool is an entry of the
        /// server's list: compile it once for all calls
        /// ([`CheckedTool::new`](mcp_application::validation::CheckedTool::new)).
        ///
        /// # Errors
        ///
        /// As for [`Client::call_tool`], [`Error::ArgumentsMismatch`](crate::Error::ArgumentsMismatch), after which nothing
        /// was sent, and [`Error::ResultMismatch`](crate::Error::ResultMismatch).
        #[cfg(feature = "validation")]
        pub $($async)? fn call_checked_tool(
            &self,
            tool: &$crate::validation::CheckedTool,
            arguments: impl ::serde::Serialize,
        ) -> Result<::mcp_model::CallToolResult, $crate::Error> {
            let params = tool.call_params(arguments)?;
            let result = self.request_as::<::mcp_model::CallToolRequest>(&params)$($await)*?;
            tool.check_result(&result).map_err($crate::Error::ResultMismatch)?;
            Ok(result)
        }

        /// Reads a resource.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`].
        pub $($async)? fn read_resource(&self, uri: &str) -> Result<::mcp_model::ReadResourceResult, $crate::Error> {
            let params = ::mcp_model::ReadResourceRequestParams::new(uri);
            self.request_as::<::mcp_model::ReadResourceRequest>(&params)$($await)*
        }

        /// Reads the page of an MCP App, whose URI a tool has ([`Tool::read_ui`](mcp_model::Tool::read_ui)). It is the
        /// server's: a host shows it in a sandboxed frame, with the policy that
        /// [`AppUi::content_security_policy`](mcp_model::AppUi::content_security_policy) makes of what it declares, and
        /// lets it call the tools of this server that are meant for it ([`Tool::is_for_app`](mcp_model::Tool::is_for_app)).
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`], and [`Error::NotAnApp`](crate::Error::NotAnApp): nothing is requested for a URI
        /// that does not begin with `ui://`, and contents with another URI than the requested one are not used.
        pub $($async)? fn read_app(&self, uri: &str) -> Result<::mcp_model::ReceivedApp, $crate::Error> {
            if !uri.starts_with("ui://") {
                return Err($crate::Error::NotAnApp);
            }
            let mut read = self.read_resource(uri)$($await)*?;
            read.contents.retain(|contents| contents.uri() == Some(uri));
            read.into_app().ok_or($crate::Error::NotAnApp)
        }

        /// Lists the direct children of a directory of resources, of the page at `cursor`; `None` is the first page.
        /// Servers with skills may declare this (`directoryRead` of the extension `io.modelcontextprotocol/skills`).
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`].
        pub $($async)? fn read_directory(
            &self,
            uri: &str,
            cursor: Option<&str>,
        ) -> Result<::mcp_model::ReadResourceDirectoryResult, $crate::Error> {
            self.request_as::<::mcp_model::ReadResourceDirectoryRequest>(&$crate::directory(uri, cursor))$($await)*
        }

        /// Lists the skills of the page at `cursor`; `None` is the first page. An entry has all that a client
        /// shows to its user; a file is read only when it is needed.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`].
        ///
        /// Rules: SK-11.
        pub $($async)? fn list_skills(
            &self,
            cursor: Option<&str>,
        ) -> Result<::mcp_model::ListSkillsResult, $crate::Error> {
            self.request_as::<::mcp_model::ListSkillsRequest>(&$crate::page(cursor))$($await)*
        }

        /// Requests the entry of the skill whose `SKILL.md` has this URI. The list need not have it.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`].
        pub $($async)? fn get_skill(&self, uri: &str) -> Result<::mcp_model::Skill, $crate::Error> {
            let params = ::mcp_model::GetSkillRequestParams::new(uri);
            Ok(self.request_as::<::mcp_model::GetSkillRequest>(&params)$($await)*?.skill)
        }

        /// Reads a file of a skill, and compares it with the entry of the skill. That of `SKILL.md` is `skill.uri`.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`], and [`Error::Skill`](crate::Error::Skill) if the entry does not have the
        /// file, or describes another one.
        #[cfg(feature = "skills")]
        pub $($async)? fn read_skill_file(
            &self,
            skill: &::mcp_model::Skill,
            uri: &str,
        ) -> Result<Vec<u8>, $crate::Error> {
            let expected = $crate::skills::ExpectedFile::new(skill, uri)?;
            Ok(expected.verify(&self.read_resource(uri)$($await)*?)?)
        }

        /// Gets a prompt. `arguments` is a value whose JSON is an object of strings, or `()` for none.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`], and [`Error::Arguments`](crate::Error::Arguments).
        pub $($async)? fn get_prompt(
            &self,
            name: &str,
            arguments: impl ::serde::Serialize,
        ) -> Result<::mcp_model::GetPromptResult, $crate::Error> {
            self.request_as::<::mcp_model::GetPromptRequest>(&$crate::prompt(name, arguments)?)$($await)*
        }

        /// Completes an argument of a prompt or of a resource template, of which `value` was entered so far.
        ///
        /// # Errors
        ///
        /// As for [`Client::request_as`].
        pub $($async)? fn complete(
            &self,
            reference: impl Into<::mcp_model::CompletionReference>,
            argument: &str,
            value: &str,
        ) -> Result<::mcp_model::CompleteResult, $crate::Error> {
            self.request_as::<::mcp_model::CompleteRequest>(&$crate::completion(reference, argument, value))$($await)*
        }

        /// Lists all tools, and requests one page after the other.
        pub fn list_all_tools(&self) -> ListItems<::mcp_model::ListToolsRequest> {
            ListItems::new(self.clone())
        }

        /// Lists all prompts, and requests one page after the other.
        pub fn list_all_prompts(&self) -> ListItems<::mcp_model::ListPromptsRequest> {
            ListItems::new(self.clone())
        }

        /// Lists all resources, and requests one page after the other.
        pub fn list_all_resources(&self) -> ListItems<::mcp_model::ListResourcesRequest> {
            ListItems::new(self.clone())
        }

        /// Lists all skills, and requests one page after the other.
        pub fn list_all_skills(&self) -> ListItems<::mcp_model::ListSkillsRequest> {
            ListItems::new(self.clone())
        }

        /// Lists all resource templates, and requests one page after the other.
        pub fn list_all_resource_templates(&self) -> ListItems<::mcp_model::ListResourceTemplatesRequest> {
            ListItems::new(self.clone())
        }
    };
}

/// A call of a tool whose result may be a task, and what is done with it. The fields of `ToolTask` are the `client` and
/// the `call`, a [`TaskCall`](crate::TaskCall). In a driver with a runtime, `asynchronous` is `[async] [.await]`;
/// `repeated` states when `wait` may be called again.
#[doc(hidden)]
#[macro_export]
macro_rules! tool_task_methods {
    (asynchronous: [$($async:ident)?] [$($await:tt)*], repeated: $repeated:literal) => {
        impl Client {
            /// Calls a tool, and permits the server to run the call as a task (the extension
            /// `io.modelcontextprotocol/tasks` of 2026-07-28): the result is fetched later, and the call may take
            /// longer than a request. The extension is declared for this call only. `arguments` is as for
            /// [`Client::call_tool`].
            ///
            /// Servers without the extension, and those of older revisions, answer at once. The tasks of 2025-11-25
            /// were experimental, and are not supported.
            ///
            /// # Errors
            ///
            /// As for [`Client::call_tool`].
            pub $($async)? fn call_tool_as_task(
                &self,
                name: &str,
                arguments: impl ::serde::Serialize,
            ) -> Result<ToolTask, $crate::Error> {
                let request = $crate::TaskCall::request(&$crate::tool_call(name, arguments)?);
                let result = self.complete_call(request)$($await)*?;
                let capabilities = self.task_inputs().capabilities.clone();
                let call = $crate::TaskCall::new(&result, self.shared_server_name(), capabilities)?;
                Ok(ToolTask { client: self.clone(), call })
            }
        }

        impl ToolTask {
            /// Waits for the outcome of the call, and asks for it as often as the server demands, but at least once in
            /// a minute, and at most ten times in a second. The input that the task requires is given by the functions
            /// and the [`Handler`](crate::Handler) of the client; if they refuse, the task is cancelled.
            ///
            #[doc = $repeated]
            ///
            /// # Errors
            ///
            /// As for [`Client::call_tool`], and [`Error::TaskEnded`](crate::Error::TaskEnded).
            pub $($async)? fn wait(&mut self) -> Result<::mcp_model::CallToolResult, $crate::Error> {
                loop {
                    match self.call.next_step(now()) {
                        $crate::TaskStep::Wait(time) => self.pause(time)$($await)*?,
                        $crate::TaskStep::Request(call) => {
                            let outcome = self.client.complete_call(call)$($await)*;
                            self.call.handle(outcome);
                        }
                        $crate::TaskStep::Ask { method, params } => {
                            let answer = self.client.task_inputs().answer(method, params)$($await)*?;
                            self.call.answer(answer);
                        }
                        $crate::TaskStep::Report(fault) => self.client.report(fault),
                        $crate::TaskStep::Done(outcome) => return outcome,
                    }
                }
            }

            /// Asks the server for the status.
            ///
            /// # Errors
            ///
            /// As for [`Client::request_as`].
            pub $($async)? fn status(&mut self) -> Result<::mcp_model::TaskStatus, $crate::Error> {
                if let Some(call) = self.call.status_request() {
                    let result = self.client.complete_call(call)$($await)*?;
                    self.call.on_status(&result)?;
                }
                Ok(self.call.status().clone())
            }

            /// Cancels the task. This does nothing if the server has answered without one, or the task has ended.
            ///
            /// # Errors
            ///
            /// As for [`Client::request`].
            pub $($async)? fn cancel(&self) -> Result<(), $crate::Error> {
                let Some(call) = self.call.cancellation() else { return Ok(()) };
                self.client.complete_call(call)$($await)*.map(drop)
            }

            /// The id of the task; `None` if the server has answered without one. With it, everyone may fetch the
            /// result, unless clients are authenticated.
            #[must_use]
            pub fn id(&self) -> Option<&str> {
                self.call.id()
            }

            /// The text about what the tool is doing, as the server has last stated it.
            #[must_use]
            pub fn message(&self) -> Option<&str> {
                self.call.message()
            }
        }
    };
}
