package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// funsearch is online one-dimensional bin packing as FunSearch published it
// (Romera-Paredes et al., Nature 625, 2024): JSON files of several instances,
// or3.json and weibull-5k.json.
var funsearch = Format{
	Name:    "funsearch",
	Help:    "or3.json, weibull-5k.json: one-dimensional instances, one trace each",
	convert: convertFunsearch,
}

type funsearchSet struct {
	Name      string              `json:"name"`
	Instances []funsearchInstance `json:"instances"`

	file, digest string
}

type funsearchInstance struct {
	Name     string  `json:"name"`
	Capacity int64   `json:"capacity"`
	Items    []int64 `json:"items"` // sizes, in order of arrival
}

func convertFunsearch(in inputs, _ Options, emit Emit) error {
	var sets []funsearchSet
	total := 0
	for _, f := range in {
		if !strings.HasSuffix(f.name, ".json") {
			continue
		}
		set, err := readFunsearch(f)
		if err != nil {
			return err
		}
		sets = append(sets, set)
		total += len(set.Instances)
	}
	if len(sets) == 0 {
		return errors.New("no file is named like *.json")
	}
	for _, set := range sets {
		width := max(2, len(strconv.Itoa(len(set.Instances)-1)))
		for i := range set.Instances {
			t := set.trace(i)
			t.Name = fmt.Sprintf("%s-%0*d", slug(set.Name), width, i)
			if err := emit(t, total); err != nil {
				return err
			}
		}
	}
	return nil
}

func readFunsearch(f input) (funsearchSet, error) {
	content, err := f.read()
	if err != nil {
		return funsearchSet{}, err
	}
	set := funsearchSet{file: f.name, digest: digest(content)}
	if err := json.Unmarshal(content, &set); err != nil {
		return set, jsonError(f.path, content, err)
	}
	if set.Name == "" {
		set.Name = strings.TrimSuffix(f.name, ".json")
	}
	if len(set.Instances) == 0 {
		return set, fmt.Errorf("%s: instances: none", f.path)
	}
	for i, instance := range set.Instances {
		where := fmt.Sprintf("%s: instances[%d]", f.path, i)
		if instance.Capacity < 1 || instance.Capacity > binpack.MaxValue {
			return set, fmt.Errorf("%s.capacity: %d is not within 1 and 2⁵⁰", where, instance.Capacity)
		}
		for j, size := range instance.Items {
			if size < 1 || size > instance.Capacity {
				return set, fmt.Errorf("%s.items[%d]: %d is not within 1 and the capacity", where, j, size)
			}
		}
	}
	return set, nil
}

// jsonError adds the line to what encoding/json says, which knows offsets.
func jsonError(path string, content []byte, err error) error {
	offset := int64(0)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		offset = syntax.Offset
	}
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		offset = kind.Offset
	}
	line := 1 + bytes.Count(content[:min(offset, int64(len(content)))], []byte("\n"))
	return fmt.Errorf("%s:%d: %w", path, line, err)
}

// trace is instance i: items of equal size are one app, and the time of an
// item is its index.
func (s funsearchSet) trace(i int) *trace.Trace {
	instance := s.Instances[i]
	sizes := slices.Clone(instance.Items)
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)

	t := binsTrace([]string{"size"}, []int64{instance.Capacity})
	t.Description = fmt.Sprintf("%s, instance %s: %d items, bins of %d", s.Name, instance.Name, len(instance.Items), instance.Capacity)
	t.Source = map[string]any{
		"origin": "funsearch",
		"files":  map[string]any{s.file: s.digest},
		"method": "time is the index of an item, app its size",
	}
	for _, size := range sizes {
		addApp(t.Instance, strconv.FormatInt(size, 10), []int64{size})
	}
	for j, size := range instance.Items {
		app, _ := slices.BinarySearch(sizes, size)
		arrive(t, float64(j), int32(app), 1)
	}
	return t
}
