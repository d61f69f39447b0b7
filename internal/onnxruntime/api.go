package onnxruntime

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unicode/utf16"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"
	"github.com/rlxc/rlxc/tensor"
)

// A function is an index in struct OrtApi of onnxruntime_c_api.h. New versions only append to the struct, so an index keeps its meaning.
type function uintptr

// The functions in use, all of them there since version 1 of the interface.
const (
	getErrorMessage                function = 2
	createEnv                      function = 3
	disableTelemetryEvents         function = 6
	createSession                  function = 7
	createSessionFromArray         function = 8
	runSession                     function = 9
	createSessionOptions           function = 10
	setSessionLogSeverityLevel     function = 22
	setSessionGraphOptimization    function = 23
	setIntraOpNumThreads           function = 24
	setInterOpNumThreads           function = 25
	createRunOptions               function = 39
	runOptionsSetTerminate         function = 46
	createTensorAsValue            function = 48
	createTensorWithDataAsValue    function = 49
	getTensorMutableData           function = 51
	fillStringTensor               function = 52
	getStringTensorDataLength      function = 53
	getStringTensorContent         function = 54
	getTensorElementType           function = 60
	getDimensionsCount             function = 61
	getDimensions                  function = 62
	getTensorTypeAndShape          function = 65
	createCPUMemoryInfo            function = 69
	getAllocatorWithDefaultOptions function = 78
	releaseStatus                  function = 93
	releaseSession                 function = 95
	releaseValue                   function = 96
	releaseRunOptions              function = 97
	releaseTensorTypeAndShapeInfo  function = 99
	releaseSessionOptions          function = 100
)

// Arguments of the functions.
const (
	interfaceVersion                                   = 16 // version of onnxruntime 1.16, the oldest supported one
	loggingLevelFatal                                  = 4
	arenaAllocator                                     = 1
	memoryTypeDefault                                  = 0
	disableAll, enableBasic, enableExtended, enableAll = 0, 1, 2, 99
)

// A library is onnxruntime, loaded: there can be one in a process.
type library struct {
	path      string
	version   string
	functions unsafe.Pointer // struct OrtApi
	env       uintptr
	memory    uintptr // describes that of the processor
	allocator uintptr // for strings
}

var loaded struct {
	sync.Mutex
	*library
}

// start loads the library on first use.
func start(path string) (*library, error) {
	path, err := Find(path)
	if err != nil {
		return nil, err
	}
	loaded.Lock()
	defer loaded.Unlock()
	switch {
	case loaded.library == nil:
		loaded.library, err = load(path)
		return loaded.library, err
	case loaded.path != path:
		return nil, fmt.Errorf("onnxruntime is already loaded from %s: a process cannot load %s too", loaded.path, path)
	}
	return loaded.library, nil
}

func load(path string) (*library, error) {
	handle, err := dynlib.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be loaded as onnxruntime's library: %w", path, err)
	}
	entry, err := dynlib.Symbol(handle, "OrtGetApiBase")
	if err != nil {
		return nil, fmt.Errorf("%s is not onnxruntime's library: %w", path, err)
	}
	base := pointer(call(entry)) // struct OrtApiBase: GetApi and GetVersionString
	l := &library{path: path}
	l.version = dynlib.Text((*byte)(pointer(call(*(*uintptr)(unsafe.Add(base, unsafe.Sizeof(uintptr(0))))))))
	if l.functions = pointer(call(*(*uintptr)(base), interfaceVersion)); l.functions == nil {
		return nil, fmt.Errorf("%s is onnxruntime %s: this rlxc needs 1.%d or newer, such as pip install onnxruntime==1.32.0",
			path, l.version, interfaceVersion)
	}
	name := []byte("rlxc\x00")
	err = errors.Join(
		l.check(createEnv, loggingLevelFatal, uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&l.env))),
		l.check(createCPUMemoryInfo, arenaAllocator, memoryTypeDefault, uintptr(unsafe.Pointer(&l.memory))),
		l.check(getAllocatorWithDefaultOptions, uintptr(unsafe.Pointer(&l.allocator))),
	)
	if err == nil {
		err = l.check(disableTelemetryEvents, l.env)
	}
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: %w", err)
	}
	return l, nil
}

// call runs a C function. Pointers to Go memory must be converted to uintptr in the call itself, which keeps them alive.
//
//go:uintptrescapes
func call(f uintptr, args ...uintptr) uintptr {
	return dynlib.Call(f, args...)
}

// pointer is an address that C returned.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

func (l *library) address(f function) uintptr {
	return *(*uintptr)(unsafe.Add(l.functions, uintptr(f)*unsafe.Sizeof(uintptr(0))))
}

// check runs a function that returns a status, and makes that an error: what onnxruntime says, on one line.
//
//go:uintptrescapes
func (l *library) check(f function, args ...uintptr) error {
	r := dynlib.Call(l.address(f), args...)
	if r == 0 {
		return nil
	}
	text := dynlib.Text((*byte)(pointer(call(l.address(getErrorMessage), r))))
	l.release(releaseStatus, r)
	return errors.New(strings.Join(strings.Fields(text), " "))
}

// release runs a function that frees an object.
func (l *library) release(f function, object uintptr) {
	if object != 0 {
		call(l.address(f), object)
	}
}

// pathBytes is a path as onnxruntime takes it: in UTF-16 on Windows.
func pathBytes(path string) []byte {
	if runtime.GOOS != "windows" {
		return append([]byte(path), 0)
	}
	wide := append(utf16.Encode([]rune(path)), 0)
	return unsafe.Slice((*byte)(unsafe.Pointer(&wide[0])), 2*len(wide))
}

// A value is a tensor in onnxruntime.
type value struct {
	handle uintptr
	memory *tensor.Tensor // whose elements it has; nil where it has its own
}

func (l *library) destroy(values []value) {
	for _, v := range values {
		l.release(releaseValue, v.handle)
	}
}

// toValue hands a tensor to onnxruntime, which reads the elements where they are. DTypes have ONNX's numbers, as has its interface.
func (l *library) toValue(t *tensor.Tensor) (value, error) {
	shape := make([]int64, max(1, t.Rank()))
	for i, n := range t.Shape() {
		shape[i] = int64(n)
	}
	if t.DType() == tensor.String {
		return l.stringValue(t, shape)
	}
	v := value{memory: t.Aligned()}
	data := v.memory.Bytes()
	if len(data) == 0 {
		data = make([]byte, 1) // the address of nothing is still an address
	}
	return v, l.check(createTensorWithDataAsValue, l.memory, uintptr(unsafe.Pointer(&data[0])), uintptr(len(v.memory.Bytes())),
		uintptr(unsafe.Pointer(&shape[0])), uintptr(t.Rank()), uintptr(t.DType()), uintptr(unsafe.Pointer(&v.handle)))
}

func (l *library) stringValue(t *tensor.Tensor, shape []int64) (v value, err error) {
	err = l.check(createTensorAsValue, l.allocator, uintptr(unsafe.Pointer(&shape[0])), uintptr(t.Rank()), uintptr(t.DType()),
		uintptr(unsafe.Pointer(&v.handle)))
	if err != nil || t.Len() == 0 {
		return v, err
	}
	pointers := make([]*byte, t.Len())
	for i, s := range t.Strings() {
		if strings.ContainsRune(s, 0) {
			return v, fmt.Errorf("string %d has a zero byte, which cannot be exchanged with onnxruntime", i)
		}
		pointers[i] = &append([]byte(s), 0)[0]
	}
	return v, l.check(fillStringTensor, v.handle, uintptr(unsafe.Pointer(&pointers[0])), uintptr(len(pointers)))
}

// toTensor copies a result.
func (l *library) toTensor(v value) (*tensor.Tensor, error) {
	var info, rank uintptr
	var dtype int32
	if err := l.check(getTensorTypeAndShape, v.handle, uintptr(unsafe.Pointer(&info))); err != nil {
		return nil, err
	}
	defer l.release(releaseTensorTypeAndShapeInfo, info)
	if err := errors.Join(l.check(getTensorElementType, info, uintptr(unsafe.Pointer(&dtype))),
		l.check(getDimensionsCount, info, uintptr(unsafe.Pointer(&rank)))); err != nil {
		return nil, err
	}
	sizes := make([]int64, rank+1)
	if err := l.check(getDimensions, info, uintptr(unsafe.Pointer(&sizes[0])), rank); err != nil {
		return nil, err
	}
	shape := make([]int, rank)
	for i := range shape {
		shape[i] = int(sizes[i])
	}
	if tensor.DType(dtype) == tensor.String {
		return l.strings(v, shape)
	}
	t := tensor.New(tensor.DType(dtype), shape...)
	var data *byte
	if err := l.check(getTensorMutableData, v.handle, uintptr(unsafe.Pointer(&data))); err != nil {
		return nil, err
	}
	copy(t.Bytes(), unsafe.Slice(data, len(t.Bytes())))
	return t, nil
}

func (l *library) strings(v value, shape []int) (*tensor.Tensor, error) {
	count := tensor.Shape(shape).Elements()
	if count == 0 {
		return tensor.FromStrings(nil, shape...), nil
	}
	var length uintptr
	if err := l.check(getStringTensorDataLength, v.handle, uintptr(unsafe.Pointer(&length))); err != nil {
		return nil, err
	}
	text, starts := make([]byte, length+1), make([]uintptr, count)
	err := l.check(getStringTensorContent, v.handle, uintptr(unsafe.Pointer(&text[0])), length, uintptr(unsafe.Pointer(&starts[0])),
		uintptr(count))
	if err != nil {
		return nil, err
	}
	list := make([]string, count)
	for i, start := range starts {
		end := length
		if i+1 < count {
			end = starts[i+1]
		}
		list[i] = string(text[start:end])
	}
	return tensor.FromStrings(list, shape...), nil
}
