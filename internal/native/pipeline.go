package native

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Pipeline is a compiled shader with its layout of bindings.
type Pipeline struct {
	d              *Device
	handle, layout uintptr
}

// A Binding says how a shader sees a buffer.
type Binding uint32

// The kinds of bindings.
const (
	Uniform  Binding = 2
	Storage  Binding = 3 // read and written
	ReadOnly Binding = 4
)

const visibleCompute = 4

// A Shader is WGSL whose entry point is main; binding i of group 0 is of kind Bindings[i]. Checked shaders are bounded by
// the library at every access; others must keep within their buffers themselves, and are faster.
type Shader struct {
	Name, Code string
	Bindings   []Binding
	Checked    bool
}

// Compile compiles shaders, as many at a time as there are processors.
func (d *Device) Compile(shaders []Shader) ([]*Pipeline, error) {
	pipelines := make([]*Pipeline, len(shaders))
	var next atomic.Int64
	var wg sync.WaitGroup
	err := d.guarded("shaders", func() {
		for range min(len(shaders), runtime.GOMAXPROCS(0)) {
			wg.Go(func() {
				for i := next.Add(1) - 1; int(i) < len(shaders); i = next.Add(1) - 1 {
					pipelines[i] = d.create(&shaders[i])
				}
			})
		}
		wg.Wait()
	})
	if err == nil {
		return pipelines, nil
	}
	for _, p := range pipelines {
		p.Release()
	}
	for i := range shaders { // one after the other: scopes do not report whose the error is
		var p *Pipeline
		err := d.guarded("shader "+shaders[i].Name, func() { p = d.create(&shaders[i]) })
		p.Release()
		if err != nil {
			return nil, err
		}
	}
	return nil, err
}

// create makes the pipeline of a shader, inside scopes of the caller's.
func (d *Device) create(s *Shader) *Pipeline {
	p := &Pipeline{d: d}
	entries := make([]layoutEntry, len(s.Bindings))
	for i, b := range s.Bindings {
		entries[i] = layoutEntry{binding: uint32(i), visibility: visibleCompute, buffer: bufferLayout{kind: uint32(b)}}
	}
	var checks uintptr
	if s.Checked {
		checks = 3
	}
	c := &d.lib.c
	p.layout = c.DeviceCreateBindGroupLayout.call(d.handle, uintptr(unsafe.Pointer(&bindGroupLayoutDescriptor{
		count: uintptr(len(entries)), entries: unsafe.SliceData(entries)})))
	layout := c.DeviceCreatePipelineLayout.call(d.handle, uintptr(unsafe.Pointer(&pipelineLayoutDescriptor{count: 1, layouts: &p.layout})))
	module := c.DeviceCreateShaderModuleTrusted.call(d.handle, uintptr(unsafe.Pointer(&shaderDescriptor{
		next: &shaderSource{chain: chained{sType: sTypeWGSL}, code: view(s.Code)}})), checks)
	p.handle = c.DeviceCreateComputePipeline.call(d.handle, uintptr(unsafe.Pointer(&computePipelineDescriptor{
		layout: layout, compute: computeState{module: module, entryPoint: view("main")}})))
	c.ShaderModuleRelease.call(module)
	c.PipelineLayoutRelease.call(layout)
	return p
}

// Release releases the pipeline.
func (p *Pipeline) Release() {
	if p == nil { // never made
		return
	}
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if p.d.handle == 0 {
		return
	}
	if p.handle != 0 {
		p.d.lib.c.ComputePipelineRelease.call(p.handle)
	}
	if p.layout != 0 {
		p.d.lib.c.BindGroupLayoutRelease.call(p.layout)
	}
	p.handle, p.layout = 0, 0
}

// A Range is a part of a buffer.
type Range struct {
	Buffer       *Buffer
	Offset, Size int64
}

// A BindGroup is buffers bound to a pipeline's bindings.
type BindGroup struct {
	d      *Device
	handle uintptr
}

// Bind binds ranges to the bindings of p, in order. A range must hold at least one element.
func (d *Device) Bind(p *Pipeline, ranges []Range) (*BindGroup, error) {
	entries := make([]bindGroupEntry, len(ranges))
	for i, r := range ranges {
		entries[i] = bindGroupEntry{binding: uint32(i), buffer: r.Buffer.handle, offset: uint64(r.Offset), size: uint64(r.Size)}
	}
	g := &BindGroup{d: d}
	err := d.guarded("binding buffers", func() {
		g.handle = d.lib.c.DeviceCreateBindGroup.call(d.handle, uintptr(unsafe.Pointer(&bindGroupDescriptor{
			layout: p.layout, count: uintptr(len(entries)), entries: unsafe.SliceData(entries)})))
		d.Live++
	})
	if err != nil {
		g.Release()
		return nil, err
	}
	return g, nil
}

// Release releases the bind group.
func (g *BindGroup) Release() {
	g.d.mu.Lock()
	defer g.d.mu.Unlock()
	if g.handle != 0 && g.d.handle != 0 {
		g.d.lib.c.BindGroupRelease.call(g.handle)
		g.d.Live--
	}
	g.handle = 0
}
