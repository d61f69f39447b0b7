// Package robustness holds the tests that treat a model file as untrusted input: a corpus of hostile models in
// named categories, each with its expected outcome, run in child processes whose time, memory and opened files are watched; bad
// inputs to a good model; and fuzzing of loading, lowering and running.
//
// What these tests found became cases of theirs, and inputs below testdata/fuzz. These faults were found after the
// first corpus of 800 files. They show where others may be:
//
//   - What ONNX forbids and nothing checked: operands of a wrong type, attributes that are not the operator's, results that
//     are missing, weights listed as inputs of another shape, integers that
//     their type cannot hold, sparse weights. Every node is now checked against ONNX's own schema.
//   - Parts within the limits whose sum is not: results on the host, arenas of many stages and branches, iterations of nested
//     loops, constants folded one after the other, strings that double, sequences that are copied with every insertion.
//   - Sizes in symbols whose expressions double with every operation.
//   - String constants, which the CPU backend read as empty.
//   - Parts that kept something as large as the whole: tables by value number of each of 4,000 branches and 6,000 stages
//     (gigabytes), the sizes of all stages in each stage's report, the names of all nodes in each of a chain of views that
//     become one (minutes), pairs of 100,000 buffers that live to the end.
//   - Windows larger than what they slide over, pads beside auto_pad, an axis twice in Resize, a share of 2 in
//     NonMaxSuppression, heads that do not divide what RotaryEmbedding rotates, ranges whose length no int64 holds on the way.
//   - Sizes of stored weights whose products overflow to 0, weights of convolutions that hold nothing and have 2^48 taps, lengths beyond
//     an attention's cache, rows that padding makes 2^34 tokens of, negative positions that counted from the end.
//   - Compiled files: packed weights that are too short or returned, unpadded without a mask, recurrent weights of other sizes,
//
// codes of
//
//	  convolutions and recurrences that are too few or in blocks of any length.
//	- A transform of a large prime length, which took quadratic time (found by fuzzing, as was Split without results).
//
// Fuzzing at low priority on one core of a busy machine: FuzzRun for an hour at one stretch without a finding (12.8 million inputs), then
// 30,000 random graphs at both levels, FuzzRead of package onnx for 10 minutes and of package artifact for 5, and FuzzRun for 10 more on
// the last state, without a finding. Before, FuzzRun found Split without results, the transforms, and a pool over 5 million elements that
// took longer than the fuzzer waits (when run alone it passes; models in fuzzing are smaller since). .ci/run fuzzes the readers, and
// loading and running, for minutes; .ci/fuzz fuzzes all targets for any time. Since steps of the host ask for memory and count their work,
// 15 seconds of each on a busy machine had no finding in the targets of artifact (75,645 inputs), packed (161,127), this package (9,101),
// ir (135,720), liveness (4,272), onnx (113,718) and pipeline (50,390).
package robustness
