//! The mutants that are found in a piece of code, and the code that is written for them.

use mutants::{find, instrument};

/// The changes of all mutants of `source`.
fn changes(source: &str) -> Vec<String> {
    let mut mutants = find(source).expect("the source is Rust").mutants;
    mutants.sort_by_key(|mutant| mutant.span.start);
    mutants.into_iter().map(|mutant| mutant.change).collect()
}

/// `source` with all of its mutants, on one line. Checks that it is still valid Rust.
fn instrumented(source: &str) -> String {
    let found = find(source).expect("the source is Rust");
    let text = instrument("", source, &found, 1, &|_| true, &|_| false).text;
    find(&text).expect("what is written is Rust");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_kind_of_code_has_its_mutants() {
    let table: &[(&str, &[&str])] = &[
        // Bodies.
        ("fn f() { g(); h(); }", &["body -> ()", "g(); -> nothing", "h(); -> nothing"]),
        ("fn f() -> bool { g() }", &["body -> true", "body -> false"]),
        ("fn f() -> bool { false }", &["body -> true"]),
        ("fn f() -> u8 { 0 }", &["body -> 1"]),
        ("fn f() -> i8 { g() }", &["body -> 0", "body -> 1", "body -> -1"]),
        ("fn f() -> Option<bool> { g() }", &["body -> None", "body -> Some(true)", "body -> Some(false)"]),
        ("fn f() -> io::Result<()> { g() }", &["body -> Ok(())"]),
        ("fn f() -> fmt::Result { g() }", &["body -> Ok(Default::default())"]),
        ("fn f() -> String { g() }", &["body -> String::new()", "body -> \"xyzzy\".into()"]),
        ("fn f() -> &'static str { g() }", &["body -> \"\"", "body -> \"xyzzy\""]),
        (
            "fn f(a: &A) -> &[bool] { g(a) }",
            &["body -> Vec::leak(Vec::new())", "body -> Vec::leak(vec![true])", "body -> Vec::leak(vec![false])"],
        ),
        (
            "fn f() -> (bool, u8) { g() }",
            &["body -> (true, 0)", "body -> (true, 1)", "body -> (false, 0)", "body -> (false, 1)"],
        ),
        (
            "fn f() -> Cow<'a, str> { g() }",
            &["body -> std::borrow::Cow::Borrowed(\"\")", "body -> std::borrow::Cow::Borrowed(\"xyzzy\")"],
        ),
        ("fn f() -> impl Iterator<Item = u8> { g() }", &["body -> no items"]),
        ("fn f() -> impl Iterator<Item = u8> { return g(); }", &[]),
        ("fn f() -> ! { g() }", &[]),
        ("fn f() {}", &[]),
        // Operators.
        ("fn f() -> ! { a == b }", &["a == b -> !="]),
        ("fn f() -> ! { a < b }", &["a < b -> ==", "a < b -> >", "a < b -> <="]),
        ("fn f() -> ! { a && !b }", &["a && !b -> ||", "!b -> b"]),
        ("fn f() -> ! { a += -1 }", &["a += -1 -> -=", "a += -1 -> *=", "-1 -> 1"]),
        ("fn f() -> ! { if let A = a && b { 1 } }", &["if let A = a && b -> false"]),
        ("fn f() -> ! { [0; 1 + 2] }", &[]),
        ("const A: u8 = 1 + 2; static B: u8 = 1 + 2; enum E { A = 1 + 2 }", &[]),
        // Arms and guards.
        (
            "fn f() -> ! { match a { A if b => 1, C => 2, _ => 3 } }",
            &["arm A -> nothing", "A if b -> if true", "A if b -> if false", "arm C -> nothing"],
        ),
        ("fn f() -> ! { match a { A if b => 1, C => 2, c => 3 } }", &["A if b -> if true", "A if b -> if false"]),
        // Calls whose value is not used.
        (
            "fn f() -> u8 { g()?; h().await; a.b(); let _ = i(); 0 }",
            &[
                "body -> 0",
                "body -> 1",
                "g()?; -> nothing",
                "g()? -> the default for an error",
                "h().await; -> nothing",
                "a.b(); -> nothing",
                "let _ = i(); -> nothing",
            ],
        ),
        // Assignments.
        (
            "fn f() { a.b = c; *d = e; f += 1; }",
            &["body -> ()", "a.b = c; -> nothing", "*d = e; -> nothing", "f += 1 -> -=", "f += 1 -> *="],
        ),
        ("fn f() -> ! { match a { A => b = c, B => {} } d }", &["b = c -> nothing"]),
        // A statement that is the whole body has no mutant of its own.
        ("fn f() { g() }", &["body -> ()"]),
        ("fn f() { g(); }", &["body -> ()"]),
        ("fn f() { if a { g() } else { h() } }", &["body -> ()", "g() -> nothing", "h() -> nothing"]),
        ("fn f() -> u8 { if a { g() } 0 }", &["body -> 0", "body -> 1", "g() -> nothing"]),
        ("fn f() -> ! { if a { g() } else { h() } }", &[]),
        (
            "fn f() { for a in b { match a { A => g(), B => {} } } }",
            &["body -> ()", "for … in b -> without the first", "for … in b -> without the last", "g() -> nothing"],
        ),
        ("fn f() -> ! { A { b: 1, c: 2, ..d } }", &["A { b: … } -> nothing", "A { c: … } -> nothing"]),
        (
            "async fn f() { loop { tokio::select! { biased; a = b(), if c == d => { g(); } else => break } } }",
            &["body -> ()", "c == d -> !=", "g(); -> nothing"],
        ),
        // Equal changes in one function are numbered; in another function they need no number.
        ("fn f() -> ! { a == b; a == b }", &["a == b -> !=", "a == b -> != [2]"]),
        // There are no mutants in tests, in code that is not built, in `Debug`, in other macros, and none that makes a
        // `Default` call itself.
        ("#[cfg(test)] mod tests { fn f() { g() } } #[test] fn t() { g() } #[tokio::test] async fn u() { g() }", &[]),
        ("#[cfg(windows)] fn f() { g() } #[cfg(not(test))] fn h() { g() }", &["body -> ()"]),
        ("impl fmt::Debug for A { fn fmt(&self) -> fmt::Result { g() } }", &[]),
        ("impl fmt::Display for A { fn fmt(&self) -> fmt::Result { g() } }", &["body -> Ok(Default::default())"]),
        ("impl Default for A { fn default() -> Self { g() } }", &[]),
        ("macro_rules! m { () => { a == b } } fn f() -> ! { n!(a == b) }", &[]),
    ];
    check(table);
}

#[test]
fn variables_loops_choices_moments_and_errors_have_their_mutants() {
    let table: &[(&str, &[&str])] = &[
        // Another variable of the same type, or a key whose type is not written.
        ("fn f(a: &A, b: &A, c: &B) -> ! { g(a, c) }", &["argument a -> b"]),
        ("fn f(a: u8, b: u8) -> ! { g(&a.c, a + 1, 2) }", &["argument &a.c -> b", "a + 1 -> -", "a + 1 -> *"]),
        ("fn f(a: A) -> ! { let b: A = g(); h(&mut a) }", &["argument &mut a -> b"]),
        ("fn f(a: A) -> ! { { let b: A = c; } g(a) }", &[]),
        ("fn f(a: A) -> ! { g(a); fn h(b: A) -> ! { i(b) } }", &["g(a); -> nothing"]),
        ("fn f(a: impl A, b: impl A) -> ! { g(a) }", &[]),
        (
            "fn f(session: S) -> ! { match a { A(owner) => g(owner), A { size } => g(size) } }",
            &["argument owner -> session"],
        ),
        ("fn f() -> ! { let Some(id) = a; |key| g(id, key) }", &["argument id -> key", "argument key -> id"]),
        ("fn f() -> ! { if let A(id) = a { b } else { g(key) } }", &["if let A(id) = a -> false"]),
        ("fn f(id: u8, key: u8) -> ! { A { id, b: c } }", &["argument { id } -> key"]),
        // Loops.
        (
            "fn f() -> ! { for a in &b { c } while let A = d { e } }",
            &["for … in &b -> without the first", "for … in &b -> without the last", "while let A = d -> false"],
        ),
        // What chooses elements.
        ("fn f() -> ! { x(a.retain(|b| c(b))) }", &["retain(c(b)) -> inverted"]),
        ("fn f() -> ! { x(a.any(|b| b == c), a.all(|b| !b), a.map(|b| c(b))) }", &["b == c -> !=", "!b -> b"]),
        // What stays although it is taken.
        (
            "fn f() -> ! { let b = a.take(); c(d.remove(&e)) }",
            &["a.take() -> clone", "d.remove(&e) -> get", "d.remove(&e) -> contains"],
        ),
        ("fn f() -> ! { a.take(); b.remove(&c); d }", &["a.take(); -> nothing", "b.remove(&c); -> nothing"]),
        // What is done twice.
        (
            "fn f() -> ! { a.push(b); a.flush(); c }",
            &["a.push(b); -> nothing", "a.push(b); -> twice", "a.flush(); -> nothing"],
        ),
        // Moments.
        ("fn f() -> ! { A { deadline: b, due: None, name: c } }", &["{ deadline: … } -> None"]),
        ("fn f() -> ! { A { next_timeout } }", &["{ next_timeout: … } -> None"]),
        // Errors that are taken for success.
        ("fn f() -> ! { let a = g(b)?; a }", &["g(b)? -> the default for an error"]),
        ("fn f() -> Option<!> { a()? }", &["body -> None"]),
        ("fn f() -> ! { match a { Ok(b) => b, Err(c) => return d(c) } }", &["arm Err(c) -> the default"]),
        ("fn f() -> ! { match a { Ok(b) => b, Err(_) => None } }", &[]),
    ];
    check(table);
}

fn check(table: &[(&str, &[&str])]) {
    for (source, expected) in table {
        assert_eq!(changes(source), *expected, "{source}");
    }
}

#[test]
fn functions_have_the_names_of_what_they_are_in() {
    let source = "mod m { impl A<'_> { fn a() { fn b() { g() } } } impl B for A<C> { fn d() { g() } } trait T { fn e() { g() } } }";
    let names: Vec<_> = find(source).unwrap().functions.into_iter().map(|function| function.name).collect();
    assert_eq!(names, ["m::A::a", "m::A::a::b", "m::<B for A<C>>::d", "m::T::e"]);
}

#[test]
fn the_copy_chooses_at_run_time() {
    let table = [
        (
            "fn f() -> u8 { g(1) }",
            "fn f() -> u8 { if crate::mutant(1) { return 0; } if crate::mutant(2) { return 1; } g(1) }",
        ),
        (
            "fn f() -> ! { a == b && !c }",
            "fn f() -> ! { (if (((a == b) != crate::mutant(2))) { ((if crate::mutant(3) { c } else { !c })) || crate::mutant(1) } \
             else { crate::mutant(1) && (!c) }) }",
        ),
        (
            "fn f() -> ! { a || b }",
            "fn f() -> ! { (if (a) { !crate::mutant(1) || (b) } else { (b) && !crate::mutant(1) }) }",
        ),
        (
            "fn f() -> ! { a > 1 }",
            "fn f() -> ! { ({ let mutants_value = a > 1; \
             if mutants_value != (a == 1) && crate::mutant(1) { !mutants_value } else \
             if mutants_value != (a < 1) && crate::mutant(2) { !mutants_value } else \
             if mutants_value != (a >= 1) && crate::mutant(3) { !mutants_value } else { mutants_value } }) }",
        ),
        (
            "fn f() -> ! { a.next() + 1 }",
            "fn f() -> ! { (if crate::mutant(1) { a.next() - 1 } else if crate::mutant(2) { a.next() * 1 } else { a.next() + 1 }) }",
        ),
        (
            "fn f() -> ! { match a { A if b => 1, C => 2, _ => 3 } }",
            "fn f() -> ! { match a { A if ({ let mutants_value = b; \
             let mutants_value = mutants_value || crate::mutant(2); \
             let mutants_value = mutants_value && !crate::mutant(3); \
             let mutants_value = mutants_value && !crate::mutant(1); mutants_value }) => 1, \
             C if !crate::mutant(4) => 2, _ => 3 } }",
        ),
        (
            "const fn f() { g(a == b); h() }",
            "fn f() { if crate::mutant(1) { return (); } if !crate::mutant(2) { \
             g(((a == b) != crate::mutant(3))); } if !crate::mutant(4) { h() } }",
        ),
        (
            "fn f() -> impl Iterator<Item = u8> { g() }",
            "fn f() -> impl Iterator<Item = u8> { Iterator::take({ g() }, if crate::mutant(1) { 0 } else { usize::MAX }) }",
        ),
        (
            "fn f(a: A, b: A, c: A) -> ! { g(a, &b.d, &mut c) }",
            "fn f(a: A, b: A, c: A) -> ! { g((if crate::mutant(1) { c } else if crate::mutant(2) { b } else { a }), \
             &(*if crate::mutant(3) { &c } else if crate::mutant(4) { &a } else { &b }).d, \
             &mut (*if crate::mutant(5) { &mut b } else if crate::mutant(6) { &mut a } else { &mut c })) }",
        ),
        (
            "fn f(id: u8, key: u8) -> ! { A { id } }",
            "fn f(id: u8, key: u8) -> ! { A { id: (if crate::mutant(1) { key } else { id }) } }",
        ),
        ("fn f() -> ! { for a in b { c } }", "fn f() -> ! { for a in crate::mutant_items(b, 1, 2) { c } }"),
        (
            "fn f() -> ! { if let A(a) = b? { c } }",
            "fn f() -> ! { if let A(a) = (match b { Err(_) if crate::mutant(2) => Ok(Default::default()), \
             mutants_value => mutants_value })? && !crate::mutant(1) { c } }",
        ),
        (
            "fn f() -> ! { match a { Ok(b) => b, Err(c) => { d; e } } }",
            "fn f() -> ! { match a { Ok(b) => b, Err(c) => { if crate::mutant(1) { Default::default() } else { { d; e } } } } }",
        ),
        (
            "fn f() -> ! { a.push(b); c.retain(|d| e); g(h.take()) }",
            "fn f() -> ! { if !crate::mutant(1) { if crate::mutant(2) { a.push(b);; } a.push(b); } \
             if !crate::mutant(3) { c.retain(|d| ((e) != crate::mutant(4))); } \
             g((if crate::mutant(5) { (h).clone() } else { h.take() })) }",
        ),
        (
            "fn f() { match a { A => b.push(c), _ => d } }",
            "fn f() { if crate::mutant(1) { return (); } match a { A if !crate::mutant(2) => if !crate::mutant(3) { \
             { if crate::mutant(4) { b.push(c); } b.push(c) } }, _ => d } }",
        ),
    ];
    for (source, expected) in table {
        assert_eq!(instrumented(source), expected);
    }
}

#[test]
fn what_is_left_out_or_constant_stays_as_it_is() {
    let source =
        "const fn f() -> bool { a == b } fn g() { h(a < b); i(a && !b); match a { A if b => c(), _ => { d = 1; } } }";
    let found = find(source).unwrap();
    assert_eq!(instrument("", source, &found, 1, &|_| false, &|_| true).text, source);
    let constant = instrument("", source, &found, 1, &|_| true, &|function| function == 0);
    assert!(constant.text.starts_with("const fn f() -> bool { a == b } fn g() { if "), "{}", constant.text);
}

#[test]
fn what_was_written_leads_back_to_the_file() {
    let source = "fn f() -> u8 { g(1); é(); 0 }";
    let found = find(source).unwrap();
    let written = instrument("", source, &found, 1, &|_| true, &|_| false);
    let mut copied = String::new();
    for chunk in &written.chunks {
        let text = &written.text[chunk.span.clone()];
        assert_eq!(text, &source[chunk.from..chunk.from + text.len()]);
        copied += text;
    }
    assert_eq!(copied, source);
    for part in &written.inserted {
        let text = &written.text[part.span.clone()];
        assert!(text == " }" || text.contains(&format!("crate::mutant({})", part.mutant + 1)), "{text}");
    }
}
