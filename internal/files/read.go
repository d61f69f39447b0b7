// Package files reads, maps and replaces files that are not trusted, and quotes in messages what such files say.
package files

// ReadFile is System.ReadFile for a file of the operating system.
func ReadFile(path string, limit int64) ([]byte, error) {
	return System{}.ReadFile(path, limit)
}
