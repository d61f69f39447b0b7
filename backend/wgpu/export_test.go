package wgpu

// SetFirstSubmit changes the number of dispatches that are submitted by themselves, and gives the old one.
func SetFirstSubmit(n int) int {
	old := firstSubmit
	firstSubmit = n
	return old
}
