//! A program that is all in the objects that it is linked with.
#![no_main]
