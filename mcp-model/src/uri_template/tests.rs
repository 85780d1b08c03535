use std::collections::BTreeMap;

use super::*;

fn text(value: &str) -> TemplateValue {
    TemplateValue::from(value)
}

/// The values of RFC 6570, section 3.2.
fn values() -> BTreeMap<String, TemplateValue> {
    let keys = [("semi", ";"), ("dot", "."), ("comma", ",")];
    let keys = keys.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    [
        ("count", TemplateValue::from(["one", "two", "three"])),
        ("dom", TemplateValue::from(["example", "com"])),
        ("dub", text("me/too")),
        ("hello", text("Hello World!")),
        ("half", text("50%")),
        ("var", text("value")),
        ("who", text("fred")),
        ("base", text("http://example.com/home/")),
        ("path", text("/foo/bar")),
        ("list", TemplateValue::from(["red", "green", "blue"])),
        ("keys", TemplateValue::Map(keys)),
        ("v", text("6")),
        ("x", text("1024")),
        ("y", text("768")),
        ("empty", text("")),
        ("empty_keys", TemplateValue::Map(Vec::new())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[test]
fn rfc_6570_3_2_the_examples_of_every_operator_are_expanded() {
    let examples = "
        {count}|one,two,three  {count*}|one,two,three  {/count}|/one,two,three  {/count*}|/one/two/three
        {;count}|;count=one,two,three  {;count*}|;count=one;count=two;count=three  {?count}|?count=one,two,three
        {?count*}|?count=one&count=two&count=three  {&count*}|&count=one&count=two&count=three
        {var}|value  {hello}|Hello%20World%21  {half}|50%25  O{empty}X|OX  O{undef}X|OX  {x,y}|1024,768
        {x,hello,y}|1024,Hello%20World%21,768  ?{x,empty}|?1024,  ?{x,undef}|?1024  ?{undef,y}|?768  {var:3}|val
        {var:30}|value  {list}|red,green,blue  {list*}|red,green,blue  {keys}|semi,%3B,dot,.,comma,%2C
        {keys*}|semi=%3B,dot=.,comma=%2C
        {+var}|value  {+hello}|Hello%20World!  {+half}|50%25  {base}index|http%3A%2F%2Fexample.com%2Fhome%2Findex
        {+base}index|http://example.com/home/index  O{+empty}X|OX  O{+undef}X|OX  {+path}/here|/foo/bar/here
        here?ref={+path}|here?ref=/foo/bar  up{+path}{var}/here|up/foo/barvalue/here
        {+x,hello,y}|1024,Hello%20World!,768  {+path,x}/here|/foo/bar,1024/here  {+path:6}/here|/foo/b/here
        {+list}|red,green,blue  {+list*}|red,green,blue  {+keys}|semi,;,dot,.,comma,,  {+keys*}|semi=;,dot=.,comma=,
        {#var}|#value  {#hello}|#Hello%20World!  {#half}|#50%25  foo{#empty}|foo#  foo{#undef}|foo
        {#x,hello,y}|#1024,Hello%20World!,768  {#path,x}/here|#/foo/bar,1024/here  {#path:6}/here|#/foo/b/here
        {#list}|#red,green,blue  {#list*}|#red,green,blue  {#keys}|#semi,;,dot,.,comma,,  {#keys*}|#semi=;,dot=.,comma=,
        {.who}|.fred  {.who,who}|.fred.fred  {.half,who}|.50%25.fred  www{.dom*}|www.example.com  X{.var}|X.value
        X{.empty}|X.  X{.undef}|X  X{.var:3}|X.val  X{.list}|X.red,green,blue  X{.list*}|X.red.green.blue
        X{.keys}|X.semi,%3B,dot,.,comma,%2C  X{.keys*}|X.semi=%3B.dot=..comma=%2C  X{.empty_keys}|X
        X{.empty_keys*}|X
        {/who}|/fred  {/who,who}|/fred/fred  {/half,who}|/50%25/fred  {/who,dub}|/fred/me%2Ftoo  {/var}|/value
        {/var,empty}|/value/  {/var,undef}|/value  {/var,x}/here|/value/1024/here  {/var:1,var}|/v/value
        {/list}|/red,green,blue  {/list*}|/red/green/blue  {/list*,path:4}|/red/green/blue/%2Ffoo
        {/keys}|/semi,%3B,dot,.,comma,%2C  {/keys*}|/semi=%3B/dot=./comma=%2C
        {;who}|;who=fred  {;half}|;half=50%25  {;empty}|;empty  {;v,empty,who}|;v=6;empty;who=fred
        {;v,bar,who}|;v=6;who=fred  {;x,y}|;x=1024;y=768  {;x,y,empty}|;x=1024;y=768;empty
        {;x,y,undef}|;x=1024;y=768  {;hello:5}|;hello=Hello  {;list}|;list=red,green,blue
        {;list*}|;list=red;list=green;list=blue  {;keys}|;keys=semi,%3B,dot,.,comma,%2C
        {;keys*}|;semi=%3B;dot=.;comma=%2C
        {?who}|?who=fred  {?half}|?half=50%25  {?x,y}|?x=1024&y=768  {?x,y,empty}|?x=1024&y=768&empty=
        {?x,y,undef}|?x=1024&y=768  {?var:3}|?var=val  {?list}|?list=red,green,blue
        {?list*}|?list=red&list=green&list=blue  {?keys}|?keys=semi,%3B,dot,.,comma,%2C
        {?keys*}|?semi=%3B&dot=.&comma=%2C
        {&who}|&who=fred  {&half}|&half=50%25  ?fixed=yes{&x}|?fixed=yes&x=1024  {&x,y,empty}|&x=1024&y=768&empty=
        {&var:3}|&var=val  {&list}|&list=red,green,blue  {&keys*}|&semi=%3B&dot=.&comma=%2C
    ";
    let values = values();
    for example in examples.split_whitespace() {
        let (template, expected) = example.split_once('|').unwrap();
        let parsed: UriTemplate = template.parse().unwrap();
        assert_eq!(parsed.expand(&values), expected, "{template}");
        assert_eq!(parsed.to_string(), template);
    }
}

#[test]
fn text_is_encoded_where_a_uri_cannot_have_it() {
    let template: UriTemplate = "x:\u{e9}%41{+a}{b}".parse().unwrap();
    let values = [("a", "%2f \u{1f980}"), ("b", "%2f")].map(|(name, value)| (name.to_owned(), text(value)));
    assert_eq!(template.expand(&values.into()), "x:%C3%A9%41%2f%20%F0%9F%A6%80%252f");
}

/// Values as in `a=1 b=x,y c:k=v`: a text, a list, and a map.
fn shown(values: &BTreeMap<String, TemplateValue>) -> String {
    let shown = values.iter().map(|(name, value)| match value {
        TemplateValue::Text(text) => format!("{name}={text}"),
        TemplateValue::List(list) => format!("{name}=[{}]", list.join(" ")),
        TemplateValue::Map(map) => {
            let members: Vec<_> = map.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            format!("{name}={{{}}}", members.join(" "))
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn templates_stand_for_the_uris_that_their_expressions_allow() {
    for (template, uri, expected) in [
        ("file:///{name}", "file:///a.txt", Some("name=a.txt")),
        ("file:///{name}", "file:///a/b.txt", None),
        ("file:///{name}", "file:///a%2Fb%20c", Some("name=a/b c")),
        ("file:///{name}", "file:///", None),
        ("file:///{name}", "file:///a?b", None),
        ("file:///{name}", "file:///a%2", None),
        ("file:///{name}", "file:///%ff", None),
        ("file:///{name}", "file:///%+1", None),
        ("file:///{+path}", "file:///a/b.txt", Some("path=a/b.txt")),
        ("file:///{+path}", "file:///", None),
        ("db://{table}/{row}", "db://users/7", Some("row=7 table=users")),
        ("db://{table}/{row}", "db://users/7/8", None),
        ("db://{table}/row", "db://users/row", Some("table=users")),
        ("x:{+all}/end", "x:a/end/end", Some("all=a/end")),
        ("x:{a}-{b}", "x:1-2-3", Some("a=1 b=2-3")),
        ("x:whole", "x:whole", Some("")),
        ("x:whole", "x:wholes", None),
        ("x:\u{e9}/{a}", "x:\u{e9}/\u{e9}", Some("a=\u{e9}")),
        ("x:\u{e9}/{a}", "x:%C3%A9/%C3%A9", Some("a=\u{e9}")),
        // GitHub's server
        ("repo://{owner}/{repo}/contents{/path*}", "repo://o/r/contents", Some("owner=o repo=r")),
        ("repo://{owner}/{repo}/contents{/path*}", "repo://o/r/contents/", Some("owner=o path=[] repo=r")),
        ("repo://{owner}/{repo}/contents{/path*}", "repo://o/r/contents/a/b%2Fc", Some("owner=o path=[a b/c] repo=r")),
        ("repo://{owner}/{repo}/contents{/path*}", "repo://o/r/contentsa", None),
        ("repo://{o}/refs/heads/{b}/contents{/path*}", "repo://o/refs/heads/m/contents/x", Some("b=m o=o path=[x]")),
        ("x:{+path}{?q,limit}", "x:a/b?limit=5&q=c%20d", Some("limit=5 path=a/b q=c d")),
        ("x:{+path}{?q,limit}", "x:a/b", Some("path=a/b")),
        ("x:{+path}{?q,limit}", "x:a/b?other=1", None),
        ("x:{+path}{?q,limit}", "x:a/b?q=1&q=2", None),
        ("x:{name}{?q}", "x:a?q", Some("name=a q=")),
        ("x:{name}{?q}", "x:?q=1", None),
        ("x:s{?tags*}", "x:s?tags=a&tags=b", Some("tags=[a b]")),
        ("x:s{?all*}", "x:s?a=1&b=2", Some("all={a:1 b:2}")),
        ("x:s{?all*}", "x:s?a=1&all=2", None),
        ("x:s{?q,all*}", "x:s?%71=1&a=2", Some("all={a:2} q=1")),
        ("x:s{?q,all*}", "x:s?a=1&q=2", Some("all={a:1} q=2")),
        ("x:s?fixed=1{&a}", "x:s?fixed=1&a=2", Some("a=2")),
        ("x:s?fixed=1{&a}", "x:s?fixed=1", Some("")),
        ("x:s{?a}{&b}", "x:s?a=1&b=2", Some("a=1 b=2")),
        ("x:s{?a}{&b}", "x:s&b=2", Some("b=2")),
        ("x:s{?a}{&b}{#c}", "x:s?b=2#d?", Some("b=2 c=d?")),
        ("x:s{;a,b}", "x:s;b=1;a", Some("a= b=1")),
        ("x:s{.type}", "x:s.txt", Some("type=txt")),
        ("x:s{.type}", "x:s.tar.gz", None),
        ("x:s{.types*}", "x:s.tar.gz", Some("types=[tar gz]")),
        ("x:{a,b}", "x:1,2", Some("a=1 b=2")),
        ("x:{a,b}", "x:1", Some("a=1")),
        ("x:{a,b}", "x:1,2,3", Some("a=1 b=2,3")),
        ("x:{a,b*}", "x:1,2,3", Some("a=1 b=[2 3]")),
        ("x:{a*,b}", "x:1,2,3", None),
        ("x:{a:3}", "x:%C3%A9bc", Some("a=\u{e9}bc")),
        ("x:{a:3}", "x:abcd", None),
        ("x:{a}{/b}{?c}", "x:1?c=3", Some("a=1 c=3")),
        ("x:{a}{/b}/end{?c}", "x:1/2/end?c=3", Some("a=1 b=2 c=3")),
        ("x:{a}{/b}/end", "x:1/end", Some("a=1")),
        ("x:{a}{a}", "x:1", None),
    ] {
        let template: UriTemplate = template.parse().unwrap();
        let found = template.match_uri(uri);
        assert_eq!(found.as_ref().map(shown).as_deref(), expected, "{template} {uri}");
    }
}

#[test]
fn templates_that_are_no_templates_are_refused_with_the_place() {
    for (template, at) in [
        ("{", 0),
        ("x}", 1),
        ("x:{}", 2),
        ("x:{a", 2),
        ("x:a}", 3),
        ("x:{{a}}", 2),
        ("x:{a b}", 2),
        ("x: ", 2),
        ("x:\n", 2),
        ("x:{a,}", 2),
        ("x:{+}", 2),
        ("x:{=a}", 2),
        ("x:{a:}", 2),
        ("x:{a:0}", 2),
        ("x:{a:10000}", 2),
        ("x:{a:+1}", 2),
        ("x:{a*:1}", 2),
        ("x:{a..b}", 2),
        ("x:{.a.}", 2),
        ("x:{%2}", 2),
        ("\u{e9}{a}{\u{e9}}", 5),
    ] {
        assert_eq!(template.parse::<UriTemplate>().unwrap_err().at, at, "{template}");
    }
    for template in ["x:{a}{b}", "x:{a}{+b}", "x:{a}/{a}", "x:{/a*}{b}", "{?a,a}"] {
        assert!(!template.parse::<UriTemplate>().unwrap().can_be_matched(), "{template}");
    }
    for template in ["", "x:{a}{/b}{?c}{&d}{#e}", "{a}.{b}", "x:{%41_.b}"] {
        assert!(template.parse::<UriTemplate>().unwrap().can_be_matched(), "{template}");
    }
}

#[test]
fn values_become_strings_arrays_and_objects() {
    let map = TemplateValue::Map(vec![("k".to_owned(), "\"".to_owned())]);
    for (value, expected) in
        [(text("a"), r#""a""#), (TemplateValue::from(["a", "b"]), r#"["a","b"]"#), (map, r#"{"k":"\""}"#)]
    {
        assert_eq!(Json::from(&value).to_text(), expected);
    }
}
