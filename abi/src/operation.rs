//! Encoding of the operations of [`crate::request`]: each is a structure with a number and a list of words in the ring.
//!
//! One declaration (the macro `operations`) makes the structure with its arguments, its results, and what encodes and
//! decodes them. Keel encodes arguments and decodes results, the monitor the opposite. Decoding validates: a number
//! outside of its type's range or a non-zero word after the last argument is rejected.

use crate::ring::Completion;
use bytemuck::{Pod, Zeroable};

/// Maximum number of arguments of an operation.
pub const MAX_ARGUMENTS: usize = 6;

/// The arguments of an operation as encoded in a [`crate::ring::Submission`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Arguments([u64; MAX_ARGUMENTS]);

impl Arguments {
    /// Arbitrary words, as a hostile guest may write.
    pub const fn raw(words: [u64; MAX_ARGUMENTS]) -> Self {
        Self(words)
    }
}

/// An encoded operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// [`Operation::NUMBER`].
    pub number: u32,
    /// Its arguments.
    pub arguments: Arguments,
}

/// The results of an operation as encoded in a [`Completion`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// First result, at most `i64::MAX`.
    pub result: u64,
    /// More results.
    pub extra: [u64; 2],
}

impl Reply {
    /// The outcome of a request: its results, or the Linux errno that it failed with.
    pub fn of(completion: &Completion) -> Result<Self, i64> {
        match u64::try_from(completion.result) {
            Ok(result) => Ok(Self { result, extra: completion.extra }),
            Err(_) => Err(completion.result.saturating_neg()),
        }
    }
}

/// Reason why a request is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// No operation has this number.
    Number,
    /// An argument is out of range.
    Argument,
}

/// A value of one word.
pub trait Word: Copy {
    /// Encodes the value.
    fn to_word(self) -> u64;
    /// Decodes a word; `None` if it is out of range.
    fn from_word(word: u64) -> Option<Self>;
}

macro_rules! words {
    ($($ty:ty),*) => {$(
        impl Word for $ty {
            fn to_word(self) -> u64 {
                self.into()
            }
            fn from_word(word: u64) -> Option<Self> {
                word.try_into().ok()
            }
        }
    )*};
}
words!(u8, u16, u32, u64);

impl Word for i64 {
    fn to_word(self) -> u64 {
        self.cast_unsigned()
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(word.cast_signed())
    }
}

impl Word for bool {
    fn to_word(self) -> u64 {
        self.into()
    }
    fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Results of an operation, in the order of the words of a [`Reply`].
pub trait Results: Sized {
    /// Encodes the results.
    fn encode(self) -> Reply;
    /// Decodes a reply; `None` if it is malformed.
    fn decode(reply: Reply) -> Option<Self>;
}

impl Results for () {
    fn encode(self) -> Reply {
        Reply::default()
    }
    fn decode(_: Reply) -> Option<Self> {
        Some(())
    }
}

impl Results for u64 {
    fn encode(self) -> Reply {
        Reply { result: self, extra: [0; 2] }
    }
    fn decode(reply: Reply) -> Option<Self> {
        Some(reply.result)
    }
}

/// Input or output of an operation: plain bytes, plain structures, or nothing.
pub trait Payload {
    /// The bytes of an input.
    fn bytes(&self) -> &[u8];
    /// The bytes of an output.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl Payload for () {
    fn bytes(&self) -> &[u8] {
        &[]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }
}

impl<T: Pod> Payload for [T] {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self)
    }
}

/// An operation with its arguments.
pub trait Operation: Copy {
    /// Its number in the ring.
    const NUMBER: u32;
    /// Type of the input in keel's memory.
    type Input: Payload + ?Sized;
    /// Type of the output in keel's memory.
    type Output: Payload + ?Sized;
    /// Results of its completion.
    type Results: Results;

    /// Encodes the arguments.
    fn arguments(&self) -> Arguments;

    /// Number and arguments.
    fn encode(&self) -> Encoded {
        Encoded { number: Self::NUMBER, arguments: self.arguments() }
    }

    /// Encodes the results of its completion.
    fn reply(&self, results: Self::Results) -> Reply {
        results.encode()
    }
}

/// Decodes arguments in order.
pub(crate) struct Reader<'a>(core::slice::Iter<'a, u64>);

impl<'a> Reader<'a> {
    pub(crate) fn new(arguments: &'a Arguments) -> Self {
        Self(arguments.0.iter())
    }

    pub(crate) fn next<W: Word>(&mut self) -> Result<W, Invalid> {
        self.0.next().and_then(|&word| W::from_word(word)).ok_or(Invalid::Argument)
    }

    /// Returns `operation`, unless further words are not zero.
    pub(crate) fn end<O>(mut self, operation: O) -> Result<O, Invalid> {
        if self.0.all(|&word| word == 0) { Ok(operation) } else { Err(Invalid::Argument) }
    }
}

/// Lists words as arguments.
pub(crate) const fn list<const N: usize>(words: [u64; N]) -> Arguments {
    const { assert!(N <= MAX_ARGUMENTS) };
    let mut all = [0; MAX_ARGUMENTS];
    let mut at = 0;
    while at < N {
        all[at] = words[at];
        at += 1;
    }
    Arguments(all)
}

/// Declares a group of operations: `Name = number { arguments } [input] [output] -> results`. The results are `()`, `u64`, or
/// a structure of at most three words whose fields follow.
macro_rules! operations {
    ($(#[$group_doc:meta])* $group:ident {$(
        $(#[$doc:meta])*
        $name:ident = $number:literal { $($(#[$field_doc:meta])* $field:ident: $ty:ty),* $(,)? }
        $input:tt => $output:tt -> $results:tt
        $({ $($(#[$result_doc:meta])* $result:ident: $result_ty:ty),* $(,)? })?;
    )*}) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $ty,)*
            }

            impl Operation for $name {
                const NUMBER: u32 = $number;
                type Input = $input;
                type Output = $output;
                type Results = $results;

                fn arguments(&self) -> Arguments {
                    $crate::operation::list([$(Word::to_word(self.$field)),*])
                }
            }

            $(
                #[doc = concat!("Results of [`", stringify!($name), "`].")]
                #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
                pub struct $results {
                    $($(#[$result_doc])* pub $result: $result_ty,)*
                }

                impl Results for $results {
                    fn encode(self) -> Reply {
                        let mut words = [$(Word::to_word(self.$result)),*].into_iter();
                        let mut next = || words.next().unwrap_or(0);
                        Reply { result: next(), extra: [next(), next()] }
                    }
                    fn decode(reply: Reply) -> Option<Self> {
                        let mut words = [reply.result, reply.extra[0], reply.extra[1]].into_iter();
                        Some(Self { $($result: Word::from_word(words.next()?)?),* })
                    }
                }
            )?
        )*

        $(#[$group_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $group {
            $(#[doc = concat!("[`struct@", stringify!($name), "`]")] $name($name),)*
        }

        impl $group {
            /// Number and argument count of each operation.
            pub const ALL: &[(u32, usize)] = &[$(($number, <[&str]>::len(&[$(stringify!($field)),*]))),*];

            /// Decodes an operation.
            pub fn decode(operation: &Encoded) -> Result<Self, Invalid> {
                #[allow(unused_mut, reason = "some have no arguments")]
                let mut words = $crate::operation::Reader::new(&operation.arguments);
                match operation.number {
                    $($number => {
                        let operation = $name { $($field: words.next()?),* };
                        words.end(Self::$name(operation))
                    })*
                    _ => Err(Invalid::Number),
                }
            }
        }

        $(impl From<$name> for $group {
            fn from(operation: $name) -> Self {
                Self::$name(operation)
            }
        })*
    };
}
pub(crate) use operations;

/// Declares a number with names.
macro_rules! named_numbers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $number:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$value_doc])* $value = $number,)*
        }

        impl Word for $name {
            fn to_word(self) -> u64 {
                self as u64
            }
            fn from_word(word: u64) -> Option<Self> {
                match word {
                    $($number => Some(Self::$value),)*
                    _ => None,
                }
            }
        }
    )*};
}
pub(crate) use named_numbers;
