//! Which version of an agent serves: what may become of one, and what a run gets.

#![cfg(test)]

mod audit;
mod channels;
mod given;
mod legality;
mod pins;
