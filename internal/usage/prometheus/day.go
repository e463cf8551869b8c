package prometheus

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

const (
	// Step is the time between samples: the mean of cpu and the peak of memory within it.
	Step = 5 * time.Minute
	// Steps are those of a day.
	Steps  = int(day / Step)
	day    = 24 * time.Hour
	format = 2
)

// An Owner is the controller of a pod: that of its ReplicaSet or Job, where it has one.
type Owner struct{ Kind, Name string }

// A Pod is known by its names.
type Pod struct{ Namespace, Name string }

// A Container has the use of a container on one day: cores and bytes by step, NaN = no
// sample. A slice is nil if it has no sample at all.
type Container struct {
	Pod
	Name        string
	CPU, Memory []float32
}

// A Day is the use of all containers on one day of UTC.
type Day struct {
	Number     int64       // days since 1970
	Containers []Container // by namespace, pod and name
	Owners     map[Pod]Owner
	Dropped    Dropped
}

// Begin is the midnight that the day begins with.
func (d *Day) Begin() time.Time { return beginOf(d.Number) }

func beginOf(number int64) time.Time { return time.Unix(number*int64(day/time.Second), 0).UTC() }

// header is the first line of a file; the samples of its series follow, as float32 in
// little-endian order.
type header struct {
	Format  int
	Number  int64
	Series  []seriesOf
	Owners  []ownerOf
	Dropped Dropped
}

type seriesOf struct {
	Namespace, Pod, Container string
	CPU, Memory               bool
}

type ownerOf struct{ Namespace, Pod, Kind, Name string }

// write replaces the file of a day.
func (d *Day) write(path string) error {
	h := header{Format: format, Number: d.Number, Dropped: d.Dropped}
	for _, c := range d.Containers {
		h.Series = append(h.Series, seriesOf{c.Namespace, c.Pod.Name, c.Name, c.CPU != nil, c.Memory != nil})
	}
	for p, o := range d.Owners {
		h.Owners = append(h.Owners, ownerOf{p.Namespace, p.Name, o.Kind, o.Name})
	}
	slices.SortFunc(h.Owners, func(a, b ownerOf) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	return durable.WriteFile(path, func(w io.Writer) error {
		zipped, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(zipped).Encode(h); err != nil {
			return err
		}
		buffer := make([]byte, 0, 4*Steps)
		for _, c := range d.Containers {
			for _, values := range [][]float32{c.CPU, c.Memory} {
				if values == nil {
					continue
				}
				buffer = buffer[:0]
				for _, v := range values {
					buffer = binary.LittleEndian.AppendUint32(buffer, shorter(v))
				}
				if _, err := zipped.Write(buffer); err != nil {
					return err
				}
			}
		}
		return zipped.Close()
	})
}

// shorter are the bits of a value without those beyond a part in 4,000, rounded up: they
// would be most of a packed file.
func shorter(v float32) uint32 {
	const rest = 1<<12 - 1
	b := math.Float32bits(v)
	if v != v || b > math.MaxUint32-rest {
		return b
	}
	return (b + rest) &^ rest
}

// readDay reads the file of a day, and of its containers those of the pods to keep; nil = of all.
func readDay(path string, number int64, keep func(d *Day, pod Pod) bool) (d *Day, err error) {
	err = readFile(path, func(r io.Reader) error {
		d, err = decode(r, number, keep)
		return err
	})
	return d, err
}

// readSeries reads the names of the series of a day.
func readSeries(path string, number int64) (list []seriesOf, err error) {
	err = readFile(path, func(r io.Reader) error {
		h, _, err := decodeHead(r, number)
		list = h.Series
		return err
	})
	return list, err
}

func readFile(path string, read func(r io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	if err = errors.Join(read(bufio.NewReaderSize(file, 1<<16)), file.Close()); err != nil {
		return fmt.Errorf("%s: %w; delete it to read the day again", path, err)
	}
	return nil
}

// decodeHead reads the first line, and returns the reader of the samples.
func decodeHead(r io.Reader, number int64) (h header, in *bufio.Reader, err error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return h, nil, err
	}
	in = bufio.NewReaderSize(unzipped, 1<<16)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return h, nil, fmt.Errorf("its first line: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&h); err != nil {
		return h, nil, fmt.Errorf("its first line: %w", err)
	}
	if h.Format != format || h.Number != number {
		return h, nil, fmt.Errorf("format %d of day %d: want format %d of day %d", h.Format, h.Number, format, number)
	}
	return h, in, nil
}

func decode(r io.Reader, number int64, keep func(d *Day, pod Pod) bool) (*Day, error) {
	h, in, err := decodeHead(r, number)
	if err != nil {
		return nil, err
	}
	d := &Day{Number: h.Number, Dropped: h.Dropped, Owners: map[Pod]Owner{}}
	for _, o := range h.Owners {
		d.Owners[Pod{o.Namespace, o.Pod}] = Owner{o.Kind, o.Name}
	}
	buffer := make([]byte, 4*Steps)
	values := func(there bool) ([]float32, error) {
		if !there {
			return nil, nil
		}
		if _, err := io.ReadFull(in, buffer); err != nil {
			return nil, err
		}
		list := make([]float32, Steps)
		for i := range list {
			list[i] = math.Float32frombits(binary.LittleEndian.Uint32(buffer[4*i:]))
			if list[i] < 0 || list[i] > math.MaxFloat32 {
				return nil, fmt.Errorf("a sample of %v: want a finite amount of at least 0", list[i])
			}
		}
		return list, nil
	}
	for _, s := range h.Series {
		c := Container{Pod: Pod{s.Namespace, s.Pod}, Name: s.Container}
		if keep != nil && !keep(d, c.Pod) {
			for _, there := range []bool{s.CPU, s.Memory} {
				if there && err == nil {
					_, err = in.Discard(len(buffer))
				}
			}
			if err != nil {
				return nil, fmt.Errorf("the samples of container %s of pod %s/%s: %w", s.Container, s.Namespace, s.Pod, err)
			}
			continue
		}
		if c.CPU, err = values(s.CPU); err == nil {
			c.Memory, err = values(s.Memory)
		}
		if err != nil {
			return nil, fmt.Errorf("the samples of container %s of pod %s/%s: %w", s.Container, s.Namespace, s.Pod, err)
		}
		d.Containers = append(d.Containers, c)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, cmp.Or(err, errors.New("more samples than it has series"))
	}
	return d, nil
}
