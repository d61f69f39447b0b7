package cuda

// Open is exported to tests: others find the backend by its name.
var Open = openDevice

// Compiled returns the error of a kernel that is compiled.
func Compiled(name string) error {
	_, err := new(modules).compiled(name)
	return err
}
