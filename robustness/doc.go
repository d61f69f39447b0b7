// Package robustness holds the tests that treat a model file as what it is, untrusted input: a corpus of hostile models,
// each with what it must give, run in child processes whose time, memory and opened files are watched; and fuzzing of
// loading, lowering and running.
package robustness
