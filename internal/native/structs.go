//lint:file-ignore U1000 the fields are those of the C structs, whether we set them or not

package native

import "unsafe"

// The structs of webgpu.h and wgpu.h that are passed by pointer, field by field; a test compares sizes and offsets with
// the header. Handles are opaque addresses.

type stringView struct {
	data   *byte
	length uintptr
}

// received is a WGPUStringView from the library (see goString).
type received struct{ data, length uintptr }

func view(s string) stringView { return stringView{unsafe.StringData(s), uintptr(len(s))} }

type chained struct {
	next  unsafe.Pointer
	sType uint32
}

const sTypeWGSL = 2

type instanceDescriptor struct {
	next           unsafe.Pointer
	featureCount   uintptr
	features       unsafe.Pointer
	requiredLimits unsafe.Pointer
}

// instanceExtras is what wgpu-native takes beside WebGPU's own descriptor; all but backends stays as the library has it.
type instanceExtras struct {
	chained
	backends, flags            uint64
	_, _, _                    uint32 // DX12's compiler, GL's version and fences
	dxcPath                    stringView
	_, _                       uint32 // DX12's shader model and swapchain
	creationBudget, lossBudget unsafe.Pointer
	displayKind                uint32
	display                    [2]uintptr
}

const sTypeInstanceExtras = 0x00030004

// realBackends are Vulkan, Metal and DX12. GL would list the same devices again, with less; without it an instance takes half of
// the time.
const realBackends = 1<<0 | 1<<2 | 1<<3

type adapterInfo struct {
	next                                      unsafe.Pointer
	vendor, architecture, device, description received
	backend, kind, vendorID, deviceID         uint32
	subgroupMin, subgroupMax                  uint32 // wgpu-native 29 leaves them unchanged
}

// Limits are what an adapter allows, in WebGPU's words and units.
type Limits struct {
	next                                      unsafe.Pointer
	MaxTextureDimension1D                     uint32
	MaxTextureDimension2D                     uint32
	MaxTextureDimension3D                     uint32
	MaxTextureArrayLayers                     uint32
	MaxBindGroups                             uint32
	MaxBindGroupsPlusVertexBuffers            uint32
	MaxBindingsPerBindGroup                   uint32
	MaxDynamicUniformBuffersPerPipelineLayout uint32
	MaxDynamicStorageBuffersPerPipelineLayout uint32
	MaxSampledTexturesPerShaderStage          uint32
	MaxSamplersPerShaderStage                 uint32
	MaxStorageBuffersPerShaderStage           uint32
	MaxStorageTexturesPerShaderStage          uint32
	MaxUniformBuffersPerShaderStage           uint32
	MaxUniformBufferBindingSize               uint64
	MaxStorageBufferBindingSize               uint64
	MinUniformBufferOffsetAlignment           uint32
	MinStorageBufferOffsetAlignment           uint32
	MaxVertexBuffers                          uint32
	MaxBufferSize                             uint64
	MaxVertexAttributes                       uint32
	MaxVertexBufferArrayStride                uint32
	MaxInterStageShaderVariables              uint32
	MaxColorAttachments                       uint32
	MaxColorAttachmentBytesPerSample          uint32
	MaxComputeWorkgroupStorageSize            uint32
	MaxComputeInvocationsPerWorkgroup         uint32
	MaxComputeWorkgroupSizeX                  uint32
	MaxComputeWorkgroupSizeY                  uint32
	MaxComputeWorkgroupSizeZ                  uint32
	MaxComputeWorkgroupsPerDimension          uint32
	MaxImmediateSize                          uint32
}

type queueDescriptor struct {
	next  unsafe.Pointer
	label stringView
}

type deviceDescriptor struct {
	next         unsafe.Pointer
	label        stringView
	featureCount uintptr
	features     *Feature
	limits       *Limits
	queue        queueDescriptor
	lost         callbackInfo
	failed       errorCallbackInfo
}

type bufferDescriptor struct {
	next   unsafe.Pointer
	label  stringView
	usage  uint64
	size   uint64
	mapped uint32
}

type shaderSource struct {
	chain chained
	code  stringView
}

type shaderDescriptor struct {
	next  *shaderSource
	label stringView
}

type bufferLayout struct {
	next          unsafe.Pointer
	kind          uint32
	dynamicOffset uint32
	minSize       uint64
}

type samplerLayout struct {
	next unsafe.Pointer
	kind uint32
}

type textureLayout struct {
	next                                unsafe.Pointer
	sampleType, dimension, multisampled uint32
}

type storageTextureLayout struct {
	next                      unsafe.Pointer
	access, format, dimension uint32
}

type layoutEntry struct {
	next           unsafe.Pointer
	binding        uint32
	visibility     uint64
	arraySize      uint32
	buffer         bufferLayout
	sampler        samplerLayout
	texture        textureLayout
	storageTexture storageTextureLayout
}

type bindGroupLayoutDescriptor struct {
	next    unsafe.Pointer
	label   stringView
	count   uintptr
	entries *layoutEntry
}

type pipelineLayoutDescriptor struct {
	next      unsafe.Pointer
	label     stringView
	count     uintptr
	layouts   *uintptr
	immediate uint32
}

type computeState struct {
	next          unsafe.Pointer
	module        uintptr
	entryPoint    stringView
	constantCount uintptr
	constants     unsafe.Pointer
}

type computePipelineDescriptor struct {
	next    unsafe.Pointer
	label   stringView
	layout  uintptr
	compute computeState
}

type bindGroupEntry struct {
	next     unsafe.Pointer
	binding  uint32
	buffer   uintptr
	offset   uint64
	size     uint64
	sampler  uintptr
	textures uintptr
}

type bindGroupDescriptor struct {
	next    unsafe.Pointer
	label   stringView
	layout  uintptr
	count   uintptr
	entries *bindGroupEntry
}

type querySetDescriptor struct {
	next  unsafe.Pointer
	label stringView
	kind  uint32
	count uint32
}
