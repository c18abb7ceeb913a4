//! Looks up functions by name, and shortens names from Rust and C++ demanglers.

mod path;

use names::rust_name::readable;
use names::v8::without_place;

use self::path::{FunctionPath, NameStyle, with_usual_types};

/// The name with all generic arguments as `_`: one name for all instances of a generic function. C++ return types and
/// parameter lists go too if the name contained generic arguments.
///
/// `alloc::vec::Vec<u8>::push` -> `alloc::vec::Vec<_>::push`, `<Vec<u8> as Clone>::clone` -> `<Vec<_> as
/// Clone>::clone`.
pub fn merged(name: &str) -> String {
    let name = &*with_usual_types(name);
    let style = NameStyle {
        generics: Some("<_>"),
        ..NameStyle::default()
    };
    let path = FunctionPath::parse(name, style);
    match path.is_generic {
        true => format!("{}{}", path.join(), path.clone),
        false => name.to_owned(),
    }
}

/// The name as people write it: without a C++ return type and parameters, with `std::string`.
///
/// `void std::sort<int*>(int*, int*)` -> `std::sort<int*>`.
pub fn written(name: &str) -> String {
    let name = &*with_usual_types(name);
    let style = NameStyle {
        generics: None,
        ..NameStyle::default()
    };
    let path = FunctionPath::parse(name, style);
    match path.parts.is_empty() {
        true => name.to_owned(),
        false => format!("{}{}", path.join(), path.clone),
    }
}

/// The name without generic arguments, C++ return type and parameters, for rules on names.
pub(super) fn bare(name: &str) -> String {
    FunctionPath::parse(name, NameStyle::default()).join()
}

/// The function's short name. [`of_name`] finds the function by it.
pub fn to_ask(name: &str) -> String {
    bare(without_place(&readable(name)))
}

/// Indices of the names that match the function `asked`: equal names; or else names that equal it or end with its path
/// once generic arguments, parameters and places are removed: `app::parse`, Go's `app.parse` and JavaScript's `parse
/// app.js:1:2` match `parse`.
pub fn of_name<'a>(names: impl Iterator<Item = &'a str> + Clone, asked: &str) -> Vec<usize> {
    if asked.is_empty() {
        return Vec::new();
    }
    let asked = &*readable(asked);
    let indices = |is_it: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let named = names.clone().enumerate().filter(|(_, name)| is_it(name));
        named.map(|(index, _)| index).collect()
    };
    let exact = indices(&|name| readable(name) == asked);
    if !exact.is_empty() {
        return exact;
    }
    indices(&|name| {
        let name = &*readable(name);
        let bare = bare(without_place(name));
        let before = bare.strip_suffix(asked);
        before.is_some_and(|before| before.is_empty() || before.ends_with("::") || before.ends_with('.'))
            || merged(name) == asked
            || written(name) == asked
    })
}

/// [`merged`], without a C++ return type and parameter list, and without the modules of types in angle brackets:
/// `<alloc::vec::Vec<u8> as core::clone::Clone>::clone` -> `<Vec<_> as Clone>::clone`.
pub fn short(name: &str) -> String {
    let style = NameStyle {
        generics: Some("<_>"),
        has_modules: false,
        ..NameStyle::default()
    };
    let name = &*with_usual_types(name);
    let path = FunctionPath::parse(name, style);
    match path.parts.is_empty() {
        true => name.to_owned(),
        false => path.join(),
    }
}

/// The name in two shorter forms, for places with less room: without generic arguments, and of that the last two
/// parts, type and method. No form is or has a part of an argument list.
pub fn labels(name: &str) -> [String; 2] {
    let style = NameStyle {
        has_modules: false,
        has_lambda_parameters: false,
        ..NameStyle::default()
    };
    let name = with_usual_types(name);
    let path = FunctionPath::parse(&name, style);
    let last = &path.parts[path.parts.len().saturating_sub(2)..];
    [path.join(), last.join("::")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_generics_have_one_name() {
        for (name, expected) in [
            ("alloc::vec::Vec<T,A>::push", "alloc::vec::Vec<_>::push"),
            ("<alloc::vec::Vec<u8>>::push", "<alloc::vec::Vec<_>>::push"),
            ("core::iter::map::<fn(u8) -> Option<u8>, ()>", "core::iter::map::<_>"),
            (
                "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
                "<alloc::vec::Vec<_> as core::clone::Clone>::clone",
            ),
            (
                "core::slice::<impl [T]>::sort_unstable_by::{{closure}}",
                "core::slice::<impl [T]>::sort_unstable_by::{{closure}}",
            ),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "std::vector<_>::push_back",
            ),
            ("void sort<long*>(long*, long*)", "sort<_>"),
            ("operator<(A const&, A const&)", "operator<(A const&, A const&)"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)"),
            ("main", "main"),
            ("a < b", "a < b"),
        ] {
            assert_eq!(merged(name), expected);
        }
    }

    #[test]
    fn written_names_keep_types_and_have_no_parameters() {
        for (name, expected) in [
            ("void sort<long*>(long*, long*)", "sort<long*>"),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&) [clone .cold]",
                "std::vector<int>::push_back [clone .cold]",
            ),
            (
                "f<std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, \
                 std::allocator<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > > > >()",
                "f<std::vector<std::string> >",
            ),
            (
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::size() const",
                "std::string::size",
            ),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
                "std::operator<< <std::char_traits<char> >",
            ),
            ("A::operator std::vector<int>() const", "A::operator std::vector<int>"),
            (
                "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
                "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
            ),
            ("core::ptr::drop_in_place::<T>", "core::ptr::drop_in_place::<T>"),
            ("get size app.js:12:3", "get size app.js:12:3"),
            ("StubRoutines (1)", "StubRoutines (1)"),
            ("::", "::"),
        ] {
            assert_eq!(written(name), expected);
        }
    }

    #[test]
    fn a_function_is_meant_by_its_name_or_its_last_parts() {
        let names = [
            "app::parse::<u8>",
            "app::reparse",
            "main.parse",
            "ns::f(int)",
            "f",
            "a::f",
            "get size app.js:12:3",
            "void sort<long*>(long*, long*)",
        ];
        for (asked, expected) in [
            ("get size", &[6][..]),
            ("sort<long*>", &[7]),
            ("get size app.js:12:3", &[6]),
            ("parse", &[0, 2]),
            ("app::parse", &[0]),
            ("app::parse::<_>", &[0]),
            ("app::reparse", &[1]),
            ("ns::f", &[3]),
            ("f", &[4]),
            ("pars", &[]),
            ("", &[]),
        ] {
            assert_eq!(of_name(names.into_iter(), asked), expected, "{asked}");
        }
    }

    #[test]
    fn bare_names_have_neither_types_nor_parameters() {
        for (name, expected) in [
            ("alloc::vec::Vec<T,A>::push", "alloc::vec::Vec::push"),
            (
                "core::ptr::drop_in_place::<alloc::string::String>",
                "core::ptr::drop_in_place",
            ),
            ("operator new(unsigned long)", "operator new"),
            ("foo::operator()(int) const", "foo::operator()"),
            ("std::ostream::operator<<(int)", "std::ostream::operator<<"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ] {
            assert_eq!(bare(name), expected);
        }
    }

    #[test]
    fn labels_are_the_function_and_no_part_of_its_arguments() {
        let iterator = "__gnu_cxx::__normal_iterator<int*, std::vector<int, std::allocator<int> > >";
        let sort = format!(
            "void std::sort<{iterator}, work(int)::{{lambda(int, int)#1}}>({iterator}, work(int)::{{lambda(int, int)#1}})"
        );
        for (name, whole, last) in [
            (&*sort, "std::sort", "std::sort"),
            (
                "bool (anonymous namespace)::f<int>(int)",
                "(anonymous namespace)::f",
                "(anonymous namespace)::f",
            ),
            ("void (*get<int>(int))(int)", "get", "get"),
            ("int (&array<int>())[3]", "array", "array"),
            ("int (A::*member<int>(char))(char)", "member", "member"),
            ("std::enable_if<((4)>(2))&&((1)<(8)), int>::type g<int>(int)", "g", "g"),
            ("decltype(auto) f<int>(int)", "f", "f"),
            (
                "decltype ((fp)(args...)) std::__invoke<int>(int)",
                "std::__invoke",
                "std::__invoke",
            ),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
                "std::operator<<",
                "std::operator<<",
            ),
            (
                "bool operator< <int>(A<int> const&, A<int> const&)",
                "operator<",
                "operator<",
            ),
            (
                "a::Foo<int>::operator->() const",
                "a::Foo::operator->",
                "Foo::operator->",
            ),
            ("a::Foo::operator()<int>(int)", "a::Foo::operator()", "Foo::operator()"),
            (
                "A::operator std::vector<int, std::allocator<int> >() const",
                "A::operator std::vector",
                "A::operator std::vector",
            ),
            (
                "A::operator void (*)(int)()",
                "A::operator void (*)(int)",
                "A::operator void (*)(int)",
            ),
            (
                "operator delete[](void*, unsigned long)",
                "operator delete[]",
                "operator delete[]",
            ),
            (
                "work(std::vector<int>&)::{lambda(int)#1}::operator()(int) const",
                "work::{lambda#1}::operator()",
                "{lambda#1}::operator()",
            ),
            (
                "main()::<lambda(int)>::operator()(int) const",
                "main::<lambda>::operator()",
                "<lambda>::operator()",
            ),
            ("A::f(int) const::B::g(char)", "A::f::B::g", "B::g"),
            ("f(int) requires std::integral<int>", "f", "f"),
            ("work[abi:cxx11]() [clone .cold]", "work", "work"),
            (
                "non-virtual thunk to A<int>::f(int)",
                "non-virtual thunk to A::f",
                "A::f",
            ),
            (
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::compare(char const*) const",
                "std::string::compare",
                "string::compare",
            ),
            (
                "std::__1::basic_string<wchar_t, std::__1::char_traits<wchar_t>, std::__1::allocator<wchar_t>>::append(int)",
                "std::wstring::append",
                "wstring::append",
            ),
            (
                "std::basic_string<char, my::Traits>::size()",
                "std::basic_string::size",
                "basic_string::size",
            ),
            (
                "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
                "<Vec as Clone>::clone",
                "<Vec as Clone>::clone",
            ),
            (
                "core::slice::<impl [T]>::sort",
                "core::slice::<impl [T]>::sort",
                "<impl [T]>::sort",
            ),
            ("app::main::{closure#0}", "app::main::{closure#0}", "main::{closure#0}"),
            (
                "net/http.(*conn).serve.func1",
                "net/http.(*conn).serve.func1",
                "net/http.(*conn).serve.func1",
            ),
            ("-[Shape area:with:]", "-[Shape area:with:]", "-[Shape area:with:]"),
            ("get size app.js:12:3", "get size app.js:12:3", "get size app.js:12:3"),
            ("StubRoutines (1)", "StubRoutines (1)", "StubRoutines (1)"),
            (
                "java.lang.Object.<init>",
                "java.lang.Object.<init>",
                "java.lang.Object.<init>",
            ),
        ] {
            assert_eq!(labels(name), [whole, last], "{name}");
        }
    }

    #[test]
    fn any_text_has_short_forms() {
        // Brackets without an end, in all orders.
        let pieces = [
            "f",
            "<",
            ">",
            "(",
            ")",
            "::",
            " ",
            "operator",
            "{",
            "]",
            "->",
            "*",
            "std::basic_string<char",
        ];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let name = [first, second, third].concat();
                    let _ = (merged(&name), short(&name), written(&name), labels(&name));
                }
            }
        }
        let deep = format!("{}f{}", "<".repeat(10_000), ">".repeat(10_000));
        assert!(short(&deep).len() <= deep.len());
        for piece in pieces {
            let long = piece.repeat(20_000);
            assert!(labels(&long)[0].len() <= long.len());
        }
    }

    #[test]
    fn short_names_keep_the_function_s_own_path() {
        assert_eq!(
            short("<alloc::vec::Vec<u8> as core::clone::Clone>::clone"),
            "<Vec<_> as Clone>::clone"
        );
        assert_eq!(short("alloc::vec::Vec<u8>::push"), "alloc::vec::Vec<_>::push");
        assert_eq!(short("std::map<int, int>::at"), "std::map<_>::at");
        assert_eq!(
            short("v8::internal::String::Hash(v8::internal::Guard const&) const"),
            "v8::internal::String::Hash"
        );
    }
}
