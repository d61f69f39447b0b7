//go:build !windows

package native

// On arm64 and System V amd64 a WGPUStringView of 16 bytes takes two registers.

func onHandle(status uint32, handle, data, n, id, _ uintptr) {
	replyOf(id).set(status, handle, data, n)
}

func onStatus(status uint32, data, n, id, _ uintptr) {
	replyOf(id).set(status, 0, data, n)
}

func onDevice(_ uintptr, kind uint32, data, n, id, _ uintptr) {
	replyOf(id).set(kind, 0, data, n)
}
