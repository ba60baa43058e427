//! The macros with which owners declare their keys.

/// Declares the keys of one owner in one section: a struct with the value of each, and the rows that say what they are.
///
/// ```
/// use tidegate_config::{Bytes, Document, Flag, NoDefault, Optional, Schema, Text, config};
///
/// config! {
///     /// What the counter room is told.
///     pub struct CounterConfig in "counter" {
///         batch_bytes_max: Bytes = 1 << 20, 1024..=(4 << 20), restart, "bytes of one request";
///         verbose: Flag = false, .., live, "whether each request is logged";
///         greeting: Optional<Text> = NoDefault, .., live, "what clients are told first";
///     }
/// }
///
/// let schema = Schema::of(&[CounterConfig::SECTIONS], "the manual");
/// let document = Document::of("counter.toml", "[counter]\nverbose = true", &schema)?;
/// let counter: CounterConfig = document.section()?;
/// assert_eq!((counter.batch_bytes_max, counter.verbose, counter.greeting), (1 << 20, true, None));
///
/// let error = Document::of("counter.toml", "[counter]\nbatch_byte_max = 1", &schema).unwrap_err();
/// assert!(error.to_string().ends_with("did you mean \"batch_bytes_max\"?"));
/// # Ok::<(), tidegate_config::ConfigError>(())
/// ```
///
/// A row is `name: kind = default, range, live or restart, meaning;`. The range is `..` where the kind has none. A
/// section that may be written any number of times is declared `in [["path"]]`, and a struct that describes several
/// sections `in "one" | "other"`.
#[macro_export]
macro_rules! config {
    ($(#[$meta:meta])* $vis:vis struct $name:ident in [[$path:literal]] { $($rows:tt)* }) => {
        $crate::config! { @declare [$(#[$meta])* $vis] $name true ($path) { $($rows)* } }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident in $($path:literal)|+ { $($rows:tt)* }) => {
        $crate::config! { @declare [$(#[$meta])* $vis] $name false ($($path)+) { $($rows)* } }
    };
    (@declare [$(#[$meta:meta])* $vis:vis] $name:ident $repeated:literal ($($path:literal)+) { $(
        $key:ident: $kind:ty = $default:expr, $range:expr, $change:ident, $meaning:literal;
    )+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name {
            $(#[doc = $meaning] pub $key: <$kind as $crate::Kind>::Value,)+
        }

        impl $name {
            /// Each key.
            pub const ROWS: &'static [$crate::KeyRow] = &[$($crate::KeyRow::of::<$kind>(
                stringify!($key),
                <$kind>::default_of($default),
                <$kind>::range_of($range),
                $crate::config!(@change $change),
                $meaning,
            )),+];

            /// Where they stand.
            pub const SECTIONS: &'static [$crate::Section] =
                &[$($crate::Section { path: $path, repeated: $repeated, rows: Self::ROWS }),+];
        }

        impl $crate::Keys for $name {
            const SECTIONS: &'static [$crate::Section] = $name::SECTIONS;

            fn read(table: &$crate::Table<'_>) -> ::std::result::Result<Self, $crate::ConfigError> {
                let mut rows = Self::ROWS.iter();
                ::std::result::Result::Ok($name {
                    // Fields are filled in the order in which they are written here, which is that of the rows.
                    $($key: table.key::<$kind>(rows.next().expect("a row for each field"))?,)+
                })
            }
        }
    };
    (@change live) => { $crate::Change::Live };
    (@change restart) => { $crate::Change::Restart };
}

/// Declares a kind of key whose values are words, each with its meaning.
///
/// ```
/// use tidegate_config::{Document, Schema, config, words};
///
/// #[derive(Clone, Debug, PartialEq)]
/// enum Colour { Red, Green }
///
/// words! {
///     /// The colours that a lamp can have.
///     struct ColourWord(Colour) { "red" => Colour::Red, "green" => Colour::Green }
/// }
/// config! { struct Lamp in [["lamp"]] { colour: ColourWord = "green", .., live, "how it shines"; } }
///
/// let schema = Schema::of(&[Lamp::SECTIONS], "the manual");
/// let document = Document::of("lamps.toml", "[[lamp]]\ncolour = \"red\"\n[[lamp]]", &schema).unwrap();
/// let lamps: Vec<Lamp> = document.list().unwrap();
/// assert_eq!((&lamps[0].colour, &lamps[1].colour), (&Colour::Red, &Colour::Green));
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis struct $name:ident($value:ty) { $($word:literal => $meaning:expr),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $name;

        impl $name {
            /// One of the words can be the default.
            #[allow(dead_code, reason = "a key may be optional or required")]
            pub const fn default_of(word: &'static str) -> $crate::DefaultValue {
                $crate::DefaultValue::Text(word)
            }

            /// The words are its range.
            #[allow(dead_code, reason = "a key may be optional or required")]
            pub const fn range_of(_: ::std::ops::RangeFull) -> $crate::Allowed {
                $crate::Allowed::Any
            }
        }

        impl $crate::Kind for $name {
            type Value = $value;
            const NAME: &'static str = "word";
            const EXPECTED: $crate::Expected = $crate::Expected::Text;
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn settle(
                value: ::std::option::Option<$crate::Value<'_>>,
                _row: &$crate::KeyRow,
            ) -> ::std::result::Result<$value, $crate::Wrong> {
                match value {
                    $(::std::option::Option::Some($crate::Value::Text($word)) => ::std::result::Result::Ok($meaning),)+
                    ::std::option::Option::None => ::std::result::Result::Err($crate::Wrong::Missing),
                    ::std::option::Option::Some(_) => ::std::result::Result::Err($crate::Wrong::one_of(Self::WORDS)),
                }
            }
        }
    };
}
