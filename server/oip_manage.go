package server

import (
	"context"
	"slices"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/oippb"
)

// What is here are Triton's extensions of the Open Inference Protocol: model configuration, the index of the repository, and statistics
// (https://github.com/triton-inference-server/server/tree/main/docs/protocol).

// tritonTypes are the element types of Triton's configurations by their numbers, without TYPE_. Strings are BYTES elsewhere.
var tritonTypes = []string{"INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32",
	"FP64", "STRING", "BF16"}

// tritonType is the number of an element type.
func tritonType(v rlxc.ValueInfo) int {
	name := datatypes[v.DType]
	if name == "BYTES" {
		name = "STRING"
	}
	return max(0, slices.Index(tritonTypes, name))
}

type oipConfigTensor struct {
	Name string `json:"name"`
	Type string `json:"data_type"`
	Dims []int  `json:"dims"` // -1 for what varies
}

type oipConfig struct {
	Name     string            `json:"name"`
	Platform string            `json:"platform"`
	Backend  string            `json:"backend"`
	MaxBatch int               `json:"max_batch_size"` // 0: the first axis is one of the model
	Inputs   []oipConfigTensor `json:"input"`
	Outputs  []oipConfigTensor `json:"output"`
}

func (c *call) oipConfig() (a oipConfig, err error) {
	e, m, err := c.named()
	if err != nil {
		return a, err
	}
	tensors := func(infos []rlxc.ValueInfo) (out []oipConfigTensor) {
		for _, v := range infos {
			out = append(out, oipConfigTensor{v.Name, "TYPE_" + tritonTypes[tritonType(v)], sizes(v)})
		}
		return out
	}
	p := m.tensors.program
	return oipConfig{Name: e.Name, Platform: platform, Backend: backendName, Inputs: tensors(p.Inputs()),
		Outputs: tensors(p.Outputs())}, nil
}

const backendName = "rlxc"

func (s *Server) grpcConfig(ctx context.Context, q *oippb.ModelConfigRequest) (a *oippb.ModelConfigResponse, err error) {
	err = s.with(ctx, q.GetName(), q.GetVersion(), func(m *opened) error {
		config := &oippb.ModelConfig{Name: q.GetName(), Platform: platform, Backend: backendName}
		for _, v := range m.tensors.program.Inputs() {
			config.Input = append(config.Input, &oippb.ModelConfig_Input{Name: v.Name, DataType: int32(tritonType(v)),
				Dims: wide(sizes(v))})
		}
		for _, v := range m.tensors.program.Outputs() {
			config.Output = append(config.Output, &oippb.ModelConfig_Output{Name: v.Name, DataType: int32(tritonType(v)),
				Dims: wide(sizes(v))})
		}
		a = &oippb.ModelConfigResponse{Config: config}
		return nil
	})
	return a, err
}

type oipIndexRequest struct {
	Ready bool `json:"ready"` // those that are ready alone
}

type oipIndexed struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
}

// index lists the models.
func (s *Server) index(ready bool) []oipIndexed {
	list := []oipIndexed{}
	for _, e := range s.models {
		x := oipIndexed{Name: e.Name, Version: modelVersion, State: "READY"}
		if m := e.current(); m == nil || m.intact() != nil {
			x.State, x.Reason = "UNAVAILABLE", "its files were changed while they were in use"
		}
		if !ready || x.State == "READY" {
			list = append(list, x)
		}
	}
	return list
}

func (c *call) oipIndex(q *oipIndexRequest) ([]oipIndexed, error) {
	return c.server.index(q.Ready), nil
}

func (s *Server) grpcIndex(_ context.Context, q *oippb.RepositoryIndexRequest) (*oippb.RepositoryIndexResponse, error) {
	a := &oippb.RepositoryIndexResponse{}
	for _, x := range s.index(q.GetReady()) {
		a.Models = append(a.Models, &oippb.RepositoryIndexResponse_ModelIndex{Name: x.Name, Version: x.Version, State: x.State,
			Reason: x.Reason})
	}
	return a, nil
}

type oipStatistics struct {
	Models []oipModelStatistics `json:"model_stats"`
}

type oipModelStatistics struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Last       int64    `json:"last_inference"` // milliseconds since 1970
	Inferences int64    `json:"inference_count"`
	Executions int64    `json:"execution_count"`
	Times      oipTimes `json:"inference_stats"`
}

type oipTimes struct {
	Success spent `json:"success"`
	Fail    spent `json:"fail"`
	Queue   spent `json:"queue"`
	Input   spent `json:"compute_input"`
	Infer   spent `json:"compute_infer"`
	Output  spent `json:"compute_output"`
}

// statistics are those of a model, or of all without a name.
func (s *Server) statistics(ctx context.Context, name, version string) (a oipStatistics, err error) {
	names := []string{name}
	if name == "" {
		names = s.Names()
	}
	for _, name := range names {
		err = s.with(ctx, name, version, func(m *opened) error {
			t := m.tensors.statistics()
			x := oipModelStatistics{Name: name, Version: modelVersion, Inferences: t.success.Count, Executions: t.success.Count,
				Times: oipTimes{Success: t.success, Fail: t.fail, Queue: t.queue, Infer: t.compute}}
			if !t.last.IsZero() {
				x.Last = t.last.UnixMilli()
			}
			a.Models = append(a.Models, x)
			return nil
		})
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

func (c *call) oipStats() (oipStatistics, error) {
	return c.server.statistics(c.ctx, c.request.PathValue("model"), c.request.PathValue("version"))
}

func (s *Server) grpcStats(ctx context.Context, q *oippb.ModelStatisticsRequest) (*oippb.ModelStatisticsResponse, error) {
	all, err := s.statistics(ctx, q.GetName(), q.GetVersion())
	a := &oippb.ModelStatisticsResponse{}
	duration := func(x spent) *oippb.StatisticDuration {
		return &oippb.StatisticDuration{Count: uint64(x.Count), Ns: uint64(x.NS)}
	}
	for _, x := range all.Models {
		a.ModelStats = append(a.ModelStats, &oippb.ModelStatistics{Name: x.Name, Version: x.Version, LastInference: uint64(x.Last),
			InferenceCount: uint64(x.Inferences), ExecutionCount: uint64(x.Executions),
			InferenceStats: &oippb.InferStatistics{Success: duration(x.Times.Success), Fail: duration(x.Times.Fail),
				Queue: duration(x.Times.Queue), ComputeInput: duration(x.Times.Input), ComputeInfer: duration(x.Times.Infer),
				ComputeOutput: duration(x.Times.Output)}})
	}
	return a, err
}
