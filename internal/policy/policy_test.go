// Package policy holds what is true of the repository as a whole: who may import whom, what is exported, what documents link to.
package policy

// root is the root of the repository, where every test of the package goes first. A test goes there itself, and not TestMain for all of
// them: only then does go test know which files it has read, and run it again when they change.
const root = "../.."
