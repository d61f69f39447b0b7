package cpu

// Open is exported to tests: others find the backend by its name.
var Open = openDevice
