package driver

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/rlxc/rlxc/internal/dynlib"
)

// Info describes a device.
type Info struct {
	Number         int
	Name           string
	Major, Minor   int // compute capability
	Processors     int // multiprocessors
	Memory         int64
	SharedPerBlock int // bytes of shared memory that a block may have
	Driver         int // version of the driver, in the form of Library.Version
}

// Capability is the compute capability as one number: 90 for 9.0.
func (i *Info) Capability() int { return 10*i.Major + i.Minor }

// The numbers of CUdevice_attribute.
const (
	attrProcessors = 16
	attrMajor      = 75
	attrMinor      = 76
	attrShared     = 97 // bytes of shared memory of a block whose kernel opts in to the maximum
)

// Devices lists the devices of the machine.
func (l *Library) Devices() ([]Info, error) {
	var n int32
	if err := l.check(l.c.DeviceGetCount, "cuDeviceGetCount", uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, ErrNoDevice
	}
	var list []Info
	for i := range int(n) {
		info, err := l.info(i)
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

func (l *Library) info(number int) (Info, error) {
	i := Info{Number: number}
	dev, err := l.handle(number)
	if err != nil {
		return i, err
	}
	name := make([]byte, 256)
	if err := l.check(l.c.DeviceGetName, "cuDeviceGetName", uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), dev); err != nil {
		return i, err
	}
	i.Name = strings.TrimSpace(dynlib.Text(&name[0]))
	numbers := map[int]*int{attrProcessors: &i.Processors, attrMajor: &i.Major, attrMinor: &i.Minor, attrShared: &i.SharedPerBlock}
	for attr, to := range numbers {
		var v int32
		if err := l.check(l.c.DeviceGetAttribute, "cuDeviceGetAttribute", uintptr(unsafe.Pointer(&v)), uintptr(attr), dev); err != nil {
			return i, err
		}
		*to = int(v)
	}
	var memory uint64
	if err := l.check(l.c.DeviceTotalMem_v2, "cuDeviceTotalMem_v2", uintptr(unsafe.Pointer(&memory)), dev); err != nil {
		return i, err
	}
	i.Memory = int64(memory)
	i.Driver, err = l.Version()
	return i, err
}

func (l *Library) handle(number int) (uintptr, error) {
	var dev int32
	err := l.check(l.c.DeviceGet, "cuDeviceGet", uintptr(unsafe.Pointer(&dev)), uintptr(number))
	return uintptr(dev), err
}

// Choose finds the device that name means: its number, or a part of its name; the first of the highest capability where it is
// empty.
func Choose(list []Info, name string) (Info, error) {
	if name == "" {
		best := list[0]
		for _, i := range list[1:] {
			if i.Capability() > best.Capability() {
				best = i
			}
		}
		return best, nil
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n >= 0 && n < len(list) {
			return list[n], nil
		}
		return Info{}, fmt.Errorf("no NVIDIA device %d: there are %d, numbered from 0", n, len(list))
	}
	var names []string
	for _, i := range list {
		if strings.Contains(strings.ToLower(i.Name), strings.ToLower(name)) {
			return i, nil
		}
		names = append(names, i.Name)
	}
	return Info{}, fmt.Errorf("no NVIDIA device is named %q: there are %s", name, strings.Join(names, ", "))
}

// A Context is the use of a device by this process: its primary context.
type Context struct {
	Info
	l      *Library
	device uintptr
	begun  chan struct{} // closed when the next two are known
	handle uintptr
	err    error
}

// NewContext begins the use of a device, which takes the driver long: it continues concurrently, and Ready waits for its end.
func (l *Library) NewContext(i Info) (*Context, error) {
	dev, err := l.handle(i.Number)
	if err != nil {
		return nil, err
	}
	c := &Context{Info: i, l: l, device: dev, begun: make(chan struct{})}
	go func() {
		defer close(c.begun)
		if err := l.check(l.c.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&c.handle)), dev); err != nil {
			c.err = fmt.Errorf("%s: %w", i.Name, err)
		}
	}()
	return c, nil
}

// Ready waits until the device can be used, and reports why it cannot.
func (c *Context) Ready() error {
	<-c.begun
	return c.err
}

// SameDevice reports whether two contexts are of one device, and so share its memory.
func (c *Context) SameDevice(other *Context) bool { return c.l == other.l && c.Number == other.Number }

// Enter makes the context that of the calling goroutine until the function that it returns is called.
func (c *Context) Enter() (func(), error) {
	if err := c.Ready(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	if err := c.l.check(c.l.c.CtxSetCurrent, "cuCtxSetCurrent", c.handle); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return runtime.UnlockOSThread, nil
}

// Close ends the use of the device.
func (c *Context) Close() error {
	if c.Ready() != nil {
		return nil
	}
	return c.l.check(c.l.c.DevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease_v2", c.device)
}

// Free returns the bytes of the device's free memory.
func (c *Context) Free() (int64, error) {
	var free, total uint64
	err := c.l.check(c.l.c.MemGetInfo_v2, "cuMemGetInfo_v2", uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return int64(free), err
}
