package native

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mirrors pairs every struct that is passed to the library with its C name and the C names of its fields, in order.
var mirrors = []struct {
	name   string
	mirror any
	fields string
}{
	{"WGPUStringView", stringView{}, "data length"},
	{"WGPUChainedStruct", chained{}, "next sType"},
	{"WGPUInstanceDescriptor", instanceDescriptor{}, "nextInChain requiredFeatureCount requiredFeatures requiredLimits"},
	{"WGPUInstanceExtras", instanceExtras{}, `chain backends flags dx12ShaderCompiler gles3MinorVersion glFenceBehaviour dxcPath ` +
		`dxcMaxShaderModel
		dx12PresentationSystem budgetForDeviceCreation budgetForDeviceLoss displayHandle.type displayHandle.data`},
	{"WGPUAdapterInfo", adapterInfo{}, "nextInChain vendor architecture device description backendType adapterType vendorID deviceID " +
		"subgroupMinSize subgroupMaxSize"},
	{"WGPULimits", Limits{}, `nextInChain maxTextureDimension1D maxTextureDimension2D maxTextureDimension3D maxTextureArrayLayers
		maxBindGroups maxBindGroupsPlusVertexBuffers maxBindingsPerBindGroup maxDynamicUniformBuffersPerPipelineLayout
		maxDynamicStorageBuffersPerPipelineLayout maxSampledTexturesPerShaderStage maxSamplersPerShaderStage
		maxStorageBuffersPerShaderStage maxStorageTexturesPerShaderStage maxUniformBuffersPerShaderStage
		maxUniformBufferBindingSize maxStorageBufferBindingSize minUniformBufferOffsetAlignment minStorageBufferOffsetAlignment
		maxVertexBuffers maxBufferSize maxVertexAttributes maxVertexBufferArrayStride maxInterStageShaderVariables
		maxColorAttachments maxColorAttachmentBytesPerSample maxComputeWorkgroupStorageSize maxComputeInvocationsPerWorkgroup
		maxComputeWorkgroupSizeX maxComputeWorkgroupSizeY maxComputeWorkgroupSizeZ maxComputeWorkgroupsPerDimension maxImmediateSize`},
	{"WGPUQueueDescriptor", queueDescriptor{}, "nextInChain label"},
	{"WGPUDeviceDescriptor", deviceDescriptor{},
		"nextInChain label requiredFeatureCount requiredFeatures requiredLimits defaultQueue deviceLostCallbackInfo " +
			"uncapturedErrorCallbackInfo"},
	{"WGPUDeviceLostCallbackInfo", callbackInfo{}, ""},
	{"WGPUUncapturedErrorCallbackInfo", errorCallbackInfo{}, ""},
	{"WGPUBufferMapCallbackInfo", callbackInfo{}, ""},
	{"WGPUPopErrorScopeCallbackInfo", callbackInfo{}, ""},
	{"WGPURequestDeviceCallbackInfo", callbackInfo{}, ""},
	{"WGPUBufferDescriptor", bufferDescriptor{}, "nextInChain label usage size mappedAtCreation"},
	{"WGPUShaderSourceWGSL", shaderSource{}, "chain code"},
	{"WGPUShaderModuleDescriptor", shaderDescriptor{}, "nextInChain label"},
	{"WGPUBufferBindingLayout", bufferLayout{}, "nextInChain type hasDynamicOffset minBindingSize"},
	{"WGPUSamplerBindingLayout", samplerLayout{}, "nextInChain type"},
	{"WGPUTextureBindingLayout", textureLayout{}, "nextInChain sampleType viewDimension multisampled"},
	{"WGPUStorageTextureBindingLayout", storageTextureLayout{}, "nextInChain access format viewDimension"},
	{"WGPUBindGroupLayoutEntry", layoutEntry{}, "nextInChain binding visibility bindingArraySize buffer sampler texture storageTexture"},
	{"WGPUBindGroupLayoutDescriptor", bindGroupLayoutDescriptor{}, "nextInChain label entryCount entries"},
	{"WGPUPipelineLayoutDescriptor", pipelineLayoutDescriptor{}, "nextInChain label bindGroupLayoutCount bindGroupLayouts immediateSize"},
	{"WGPUComputeState", computeState{}, "nextInChain module entryPoint constantCount constants"},
	{"WGPUComputePipelineDescriptor", computePipelineDescriptor{}, "nextInChain label layout compute"},
	{"WGPUBindGroupEntry", bindGroupEntry{}, "nextInChain binding buffer offset size sampler textureView"},
	{"WGPUBindGroupDescriptor", bindGroupDescriptor{}, "nextInChain label layout entryCount entries"},
	{"WGPUQuerySetDescriptor", querySetDescriptor{}, "nextInChain label type count"},
}

// TestLayouts compares the mirrors with what a C compiler makes of the headers beside the library.
func TestLayouts(t *testing.T) {
	include := filepath.Dir(libraryPath(t))
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	var c, want strings.Builder
	c.WriteString("#include <stdio.h>\n#include <stddef.h>\n#include \"wgpu.h\"\nint main(void) {\n")
	for _, m := range mirrors {
		fmt.Fprintf(&c, "printf(\"%s %%zu\\n\", sizeof(%s));\n", m.name, m.name)
		g := reflect.TypeOf(m.mirror)
		fmt.Fprintf(&want, "%s %d\n", m.name, g.Size())
		for i, field := range strings.Fields(m.fields) {
			fmt.Fprintf(&c, "printf(\"%s.%s %%zu\\n\", offsetof(%s, %s));\n", m.name, field, m.name, field)
			require.Less(t, i, g.NumField(), m.name)
			fmt.Fprintf(&want, "%s.%s %d\n", m.name, field, g.Field(i).Offset)
		}
	}
	c.WriteString("}\n")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	require.NoError(t, os.WriteFile(source, []byte(c.String()), 0o600))
	out, err := exec.Command(compiler, "-I", include, "-o", program, source).CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(program).Output()
	require.NoError(t, err)
	require.Equal(t, strings.Split(want.String(), "\n"), strings.Split(string(out), "\n"))
}
