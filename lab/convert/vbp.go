package convert

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// vbp is static vector bin packing as Mommessin, Erlebach and Shakhlevich keep
// it ("Classification and evaluation of the algorithms for vector bin packing"):
// files of dimensions, capacities, number of item lines, and for each line the
// sizes and how many items have them. Sets: Panigrahy et al. 2011, and triplets
// (Caprara and Toth 2001), whose items lie in solved order: replay them in
// shuffled orders only.
//
// The files lie in a tar archive or in a folder. summary_known.csv, where given,
// says which optima are proven.
var vbp = Format{
	Name:    "vbp",
	Help:    "*.vbp, or instances.tar.gz of them, summary_known.csv: vector bin packing, a trace each",
	convert: convertVbp,
}

type vbpInstance struct {
	name, file, digest string
	capacity           []int64
	sizes              [][]int64 // per item line
	counts             []int64   // items of each line
	optimal            int64     // 0 = not known
}

// errNegativeSize marks a file that holds no packing problem.
var errNegativeSize = errors.New("negative size")

func convertVbp(in inputs, opt Options, emit Emit) error {
	in, err := in.unpacked()
	if err != nil {
		return err
	}
	var all []vbpInstance
	optimal := map[string]int64{}
	found := 0
	for _, f := range in {
		if f.name == "summary_known.csv" {
			if err := readOptima(f, optimal); err != nil {
				return err
			}
		}
		base, ok := strings.CutSuffix(f.name, ".vbp")
		if !ok {
			continue
		}
		found++
		v := vbpInstance{name: slug(base), file: f.name}
		if err := v.read(f); errors.Is(err, errNegativeSize) {
			opt.warnf("skipped: %v", err)
			continue
		} else if err != nil {
			return err
		}
		all = append(all, v)
	}
	switch {
	case found == 0:
		return errors.New("no file is named like *.vbp")
	case len(all) == 0:
		return errors.New("every file was skipped")
	}
	if err := sortByName(all, func(v vbpInstance) string { return v.name }); err != nil {
		return err
	}
	for _, v := range all {
		v.optimal = optimal[strings.TrimSuffix(v.file, ".vbp")]
		if err := emit(v.trace(), len(all)); err != nil {
			return err
		}
	}
	return nil
}

// tarEnd is the number of zeros, at least, that a tar archive ends with.
const tarEnd = 1024

// unpacked replaces tar archives by the files in them.
func (in inputs) unpacked() (inputs, error) {
	var out inputs
	for _, f := range in {
		if !strings.HasSuffix(f.name, ".tar") {
			out = append(out, f)
			continue
		}
		content, err := f.read()
		if err != nil {
			return nil, err
		}
		left := int64(len(content))
		for archive := tar.NewReader(bytes.NewReader(content)); ; {
			head, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", f.path, err)
			}
			name := path.Base(head.Name)
			if head.Typeflag != tar.TypeReg || strings.HasPrefix(name, ".") {
				continue
			}
			if left -= head.Size; left < 0 {
				return nil, fmt.Errorf("%s: %s: the files are larger than the archive: sparse files are not read", f.path, head.Name)
			}
			text, err := io.ReadAll(archive)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", f.path, head.Name, err)
			}
			out = append(out, input{path: f.path + ": " + head.Name, name: name, content: text})
		}
		// Cut off between two files, an archive reads like a complete one.
		if !bytes.HasSuffix(content, make([]byte, tarEnd)) {
			return nil, fmt.Errorf("%s: the archive is cut off: it has no end mark", f.path)
		}
	}
	return out, nil
}

// readOptima reads the proven optima, by file name without extension.
func readOptima(f input, optimal map[string]int64) error {
	content, err := f.read()
	if err != nil {
		return err
	}
	return f.named(content, '\t', []string{"instance_name", "OPT"}, 0, func(fields []string) error {
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || n < -1 {
			return fmt.Errorf("OPT %q: want a number of bins, or -1", fields[1])
		}
		if _, ok := optimal[fields[0]]; ok {
			return fmt.Errorf("instance_name %q: a duplicate", fields[0])
		}
		optimal[strings.Clone(fields[0])] = max(n, 0)
		return nil
	})
}

func (v *vbpInstance) read(f input) error {
	content, err := f.read()
	if err != nil {
		return err
	}
	v.digest = digest(content)
	var head []int64 // dimensions, then item lines
	err = f.lines(content, func(text string) error {
		fields := strings.Fields(text)
		switch {
		case len(head) == 0 || len(head) == 1 && v.capacity != nil:
			what := []string{"dimensions", "item lines"}[len(head)]
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil || n < 1 || len(head) == 0 && n > binpack.MaxDimensions {
				return fmt.Errorf("%s %q: not a number that can be", what, text)
			}
			head = append(head, n)
			return nil
		case v.capacity == nil:
			v.capacity, err = vbpNumbers("capacity", fields, head[0])
			return err
		}
		if int64(len(v.sizes)) == head[1] {
			return fmt.Errorf("more than the %d item lines announced", head[1])
		}
		return v.item(fields)
	})
	if err != nil {
		return err
	}
	if len(head) < 2 || int64(len(v.sizes)) != head[1] {
		return fmt.Errorf("%s:%d: the file ends after %d item lines, fewer than announced", f.path, lastLine(content), len(v.sizes))
	}
	return nil
}

// item reads sizes and count of a line.
func (v *vbpInstance) item(fields []string) error {
	d := len(v.capacity)
	numbers, err := vbpNumbers("size", fields, int64(d)+1)
	if err != nil {
		return err
	}
	for i, size := range numbers[:d] {
		if size > v.capacity[i] {
			return fmt.Errorf("size %d %q: above the capacity", i, fields[i])
		}
	}
	if numbers[d] < 1 || numbers[d] > 1<<20 {
		return fmt.Errorf("multiplicity %q: want at least 1", fields[d])
	}
	v.sizes = append(v.sizes, numbers[:d:d])
	v.counts = append(v.counts, numbers[d])
	return nil
}

func vbpNumbers(what string, fields []string, want int64) ([]int64, error) {
	if int64(len(fields)) != want {
		return nil, fmt.Errorf("%s: %d numbers, want %d", what, len(fields), want)
	}
	numbers := make([]int64, want)
	for i, text := range fields {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || n > binpack.MaxValue:
			return nil, fmt.Errorf("%s %d %q: not a number that can be", what, i, text)
		case n < 0:
			return nil, fmt.Errorf("%s %d %q: %w", what, i, text, errNegativeSize)
		}
		numbers[i] = n
	}
	return numbers, nil
}

// trace makes each item line an app and each item a request; its time is its
// index.
func (v *vbpInstance) trace() *trace.Trace {
	var names []string
	for d := range v.capacity {
		names = append(names, fmt.Sprintf("d%d", d))
	}
	t := binsTrace(names, v.capacity)
	t.Name = v.name
	t.Source = map[string]any{
		"origin": "vbp",
		"files":  map[string]any{v.file: v.digest},
		"method": "time is the index of an item, app its line",
	}
	if v.optimal > 0 {
		t.Source["optimal"] = int(v.optimal)
	}
	for i, size := range v.sizes {
		addApp(t.Instance, fmt.Sprintf("i%05d", i), size)
		for range v.counts[i] {
			arrive(t, float64(len(t.Requests)), int32(i), 1)
		}
	}
	t.Description = fmt.Sprintf("vector bin packing, %s: %d items in %d dimensions", v.name, len(t.Requests), len(v.capacity))
	return t
}
