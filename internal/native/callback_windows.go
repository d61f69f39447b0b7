package native

// On Windows a WGPUStringView is passed by a pointer, and a callback must give a result.

func onHandle(status, handle uintptr, s *received, id, _ uintptr) uintptr {
	replyOf(id).set(uint32(status), handle, s.data, s.length)
	return 0
}

func onStatus(status uintptr, s *received, id, _ uintptr) uintptr {
	replyOf(id).set(uint32(status), 0, s.data, s.length)
	return 0
}

func onDevice(_, kind uintptr, s *received, id, _ uintptr) uintptr {
	replyOf(id).set(uint32(kind), 0, s.data, s.length)
	return 0
}
