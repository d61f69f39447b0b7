package ir

import (
	"errors"

	"github.com/rlxc/rlxc/tensor"
)

func (Where) Infer([]*Value) ([]Type, error)                      { return nil, errors.New("stub") }
func (Where) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error)     { return nil, errors.New("stub") }
func (Cast) Infer([]*Value) ([]Type, error)                       { return nil, errors.New("stub") }
func (Cast) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error)      { return nil, errors.New("stub") }
func (Clip) Infer([]*Value) ([]Type, error)                       { return nil, errors.New("stub") }
func (Clip) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error)      { return nil, errors.New("stub") }
func (Reduce) Infer([]*Value) ([]Type, error)                     { return nil, errors.New("stub") }
func (Reduce) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error)    { return nil, errors.New("stub") }
func (ArgReduce) Infer([]*Value) ([]Type, error)                  { return nil, errors.New("stub") }
func (ArgReduce) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, errors.New("stub") }
func (Softmax) Infer([]*Value) ([]Type, error)                    { return nil, errors.New("stub") }
func (Softmax) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error)   { return nil, errors.New("stub") }
func (CumSum) Infer([]*Value) ([]Type, error)                     { return nil, errors.New("stub") }
func (CumSum) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error)    { return nil, errors.New("stub") }
func (LayerNorm) Infer([]*Value) ([]Type, error)                  { return nil, errors.New("stub") }
func (LayerNorm) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, errors.New("stub") }
func (Attention) Infer([]*Value) ([]Type, error)                  { return nil, errors.New("stub") }
func (Attention) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, errors.New("stub") }
func (Rotary) Infer([]*Value) ([]Type, error)                     { return nil, errors.New("stub") }
func (Rotary) Eval([]*tensor.Tensor) ([]*tensor.Tensor, error)    { return nil, errors.New("stub") }
