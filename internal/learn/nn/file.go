package nn

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// version of the files that this package writes; it reads no other.
const version = 1

// A sealed file. Digest is sha256 over the compact content.
type sealed struct {
	Format  string          `json:"format"`
	Version int             `json:"version"`
	Digest  string          `json:"digest"`
	Content json.RawMessage `json:"content"`
}

// Seal returns a file with the content as JSON, the name of its format, a version and a
// digest.
func Seal(format string, content any) ([]byte, error) {
	inner, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("nn: %s: %w", format, err)
	}
	out, err := json.Marshal(sealed{Format: format, Version: version, Digest: digest(inner), Content: inner})
	if err != nil {
		return nil, fmt.Errorf("nn: %s: %w", format, err)
	}
	return append(out, '\n'), nil
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// Unseal reads the output of [Seal] into content. It refuses a file of another format or
// version, with another digest, with unknown fields, or that is cut off; its errors begin
// with the file's name, and name line or field.
func Unseal(name string, data []byte, format string, content any) error {
	var s sealed
	if err := parse(data, &s); err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	if s.Format != format {
		return fmt.Errorf("%s: format: %q, want %q", name, s.Format, format)
	}
	if s.Version != version {
		return fmt.Errorf("%s: version: %d, this program reads %d", name, s.Version, version)
	}
	if len(s.Content) == 0 {
		return fmt.Errorf("%s: content: missing", name)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, s.Content); err != nil {
		return fmt.Errorf("%s: content: %w", name, err)
	}
	if got := digest(compact.Bytes()); got != s.Digest {
		return fmt.Errorf("%s: digest: the content has %s, the file says %q", name, got, s.Digest)
	}
	if err := parse(compact.Bytes(), content); err != nil {
		return fmt.Errorf("%s: content:%w", name, err)
	}
	return nil
}

// parse reads one JSON value with nothing behind it. Errors begin with a line.
func parse(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, next := d.Token(); errors.Is(next, io.EOF) {
			return nil
		}
		err = errors.New("more than one JSON value")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%d: the file is cut off", 1+bytes.Count(data, []byte("\n")))
	}
	at := d.InputOffset()
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = syntax.Offset
	}
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		at = kind.Offset
	}
	return fmt.Errorf("%d: %w", 1+bytes.Count(data[:min(at, int64(len(data)))], []byte("\n")), err)
}

// EncodeFloats returns numbers as text: little-endian IEEE 754, in base64.
func EncodeFloats[T Float](v []T) string {
	raw, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(fmt.Sprintf("nn: %v", err)) // slices of floats have a fixed size
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// DecodeFloats reads the output of [EncodeFloats]. It refuses any other count than want, and
// numbers that are not finite.
func DecodeFloats[T Float](text string, want int) ([]T, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("not base64: %w", err)
	}
	out := make([]T, want)
	if size := binary.Size(out); len(raw) != size {
		return nil, fmt.Errorf("%d bytes, want %d for %d numbers", len(raw), size, want)
	}
	if _, err := binary.Decode(raw, binary.LittleEndian, out); err != nil {
		return nil, err
	}
	for i, v := range out {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("number %d is %v", i, v)
		}
	}
	return out, nil
}

// Formats of the files of networks.
const mlpFormat, gruFormat = "sigma-mlp", "sigma-gru"

type mlpContent struct {
	Shape
	Numbers string `json:"numbers"`
	Weights string `json:"weights"`
}

type gruContent struct {
	Inputs  int    `json:"inputs"`
	Hidden  int    `json:"hidden"`
	Numbers string `json:"numbers"`
	Weights string `json:"weights"`
}

func numbers[T Float]() string { return fmt.Sprintf("%T", T(0)) }

func decodeWeights[T Float](name, have, weights string, want int) ([]T, error) {
	if have != numbers[T]() {
		return nil, fmt.Errorf("%s: numbers: %q, want %q", name, have, numbers[T]())
	}
	params, err := DecodeFloats[T](weights, want)
	if err != nil {
		return nil, fmt.Errorf("%s: weights: %w", name, err)
	}
	return params, nil
}

// Encode returns the network as a file. It refuses one with weights that are not
// finite.
func (m *MLP[T]) Encode() ([]byte, error) {
	weights := EncodeFloats(m.params)
	if _, err := DecodeFloats[T](weights, len(m.params)); err != nil {
		return nil, fmt.Errorf("nn: weights: %w", err)
	}
	return Seal(mlpFormat, mlpContent{Shape: m.shape, Numbers: numbers[T](), Weights: weights})
}

// DecodeMLP reads the output of [MLP.Encode]. It refuses a network with other numbers of
// inputs and outputs than given. Errors begin with the file's name.
func DecodeMLP[T Float](name string, data []byte, inputs, outputs int) (*MLP[T], error) {
	var c mlpContent
	if err := Unseal(name, data, mlpFormat, &c); err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m := &MLP[T]{shape: c.Shape}
	if m.inputs() != inputs || m.outputs() != outputs {
		return nil, fmt.Errorf("%s: sizes: %v, want %d inputs and %d outputs", name, c.Sizes, inputs, outputs)
	}
	params, err := decodeWeights[T](name, c.Numbers, c.Weights, c.params())
	if err != nil {
		return nil, err
	}
	m.params = params
	return m, nil
}

// Encode returns the network as a file. It refuses one with weights that are not
// finite.
func (g *GRU[T]) Encode() ([]byte, error) {
	weights := EncodeFloats(g.params)
	if _, err := DecodeFloats[T](weights, len(g.params)); err != nil {
		return nil, fmt.Errorf("nn: weights: %w", err)
	}
	return Seal(gruFormat, gruContent{Inputs: g.in, Hidden: g.hidden, Numbers: numbers[T](), Weights: weights})
}

// DecodeGRU reads the output of [GRU.Encode]. It refuses a network with another number of
// inputs or units than given. Errors begin with the file's name.
func DecodeGRU[T Float](name string, data []byte, inputs, hidden int) (*GRU[T], error) {
	var c gruContent
	if err := Unseal(name, data, gruFormat, &c); err != nil {
		return nil, err
	}
	g := &GRU[T]{in: c.Inputs, hidden: c.Hidden}
	if err := g.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if g.in != inputs || g.hidden != hidden {
		return nil, fmt.Errorf("%s: inputs: %d and hidden: %d, want %d and %d", name, g.in, g.hidden, inputs, hidden)
	}
	params, err := decodeWeights[T](name, c.Numbers, c.Weights, g.size())
	if err != nil {
		return nil, err
	}
	g.params = params
	return g, nil
}
