// Package wholemodels runs whole models through the API: exports, decoders, fixtures, what public packages carry.
package wholemodels

// root is the root of the repository, whose testdata has the models: every test goes there first, so that go test knows which files it
// has read.
const root = "../.."
