package convert

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// bppc is bin packing with conflicts (Fernandes-Muritiba, Iori, Malaguti and
// Toth, INFORMS JoC 22, 2010). The first line of a file holds the number of
// items and the capacity; a line of each item follows: its number from 1, its
// weight, and the items that must not share its bin, each pair on one of the two
// lines.
var bppc = Format{
	Name:    "bppc",
	Help:    "BPPC_*.txt: one dimension with conflicts, a trace for each file",
	convert: convertBppc,
}

type bppcInstance struct {
	name, file, digest string
	capacity           int64
	weights            []int64
	conflicts          [][2]int32 // pairs as they come, from 0
}

func convertBppc(in inputs, _ Options, emit Emit) error {
	var all []bppcInstance
	for _, f := range in {
		if base, ok := strings.CutSuffix(f.name, ".txt"); ok && strings.HasPrefix(f.name, "BPPC") {
			b := bppcInstance{name: slug(base), file: f.name}
			if err := b.read(f); err != nil {
				return err
			}
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		return errors.New("no file is named like BPPC*.txt")
	}
	if err := sortByName(all, func(b bppcInstance) string { return b.name }); err != nil {
		return err
	}
	for _, b := range all {
		if err := emit(b.trace(), len(all)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bppcInstance) read(f input) error {
	content, err := f.read()
	if err != nil {
		return err
	}
	b.digest = digest(content)
	items := int64(-1)
	seen := map[[2]int32]bool{}
	err = f.lines(content, func(text string) error {
		fields := strings.Fields(text)
		if len(fields) < 2 {
			return fmt.Errorf("%d fields, want at least 2", len(fields))
		}
		if items < 0 {
			var head [2]int64
			if err := readCounts([]string{"items", "capacity"}, fields[:2], head[:]); err != nil {
				return err
			}
			if len(fields) > 2 || head[0] < 1 || head[0] > math.MaxInt32 || head[1] < 1 {
				return fmt.Errorf("items and capacity %q: want two positive numbers", text)
			}
			items, b.capacity = head[0], head[1]
			return nil
		}
		return b.item(fields, items, seen)
	})
	switch at := lastLine(content); {
	case err == nil && items < 0:
		err = fmt.Errorf("%s:%d: empty, want a line of items and capacity", f.path, at)
	case err == nil && int64(len(b.weights)) != items:
		err = fmt.Errorf("%s:%d: the file ends after %d items, the first line says %d", f.path, at, len(b.weights), items)
	}
	return err
}

func (b *bppcInstance) item(fields []string, items int64, seen map[[2]int32]bool) error {
	i := int64(len(b.weights))
	if fields[0] != strconv.FormatInt(i+1, 10) || i == items {
		return fmt.Errorf("item %q: want %d of %d", fields[0], i+1, items)
	}
	weight, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || weight < 0 || weight > b.capacity {
		return fmt.Errorf("weight %q: not within 0 and the capacity", fields[1])
	}
	b.weights = append(b.weights, weight)
	for _, text := range fields[2:] {
		other, err := strconv.ParseInt(text, 10, 64)
		if err != nil || other < 1 || other > items || other == i+1 {
			return fmt.Errorf("conflict %q: not another item", text)
		}
		pair := [2]int32{int32(min(i, other-1)), int32(max(i, other-1))}
		if seen[pair] {
			return fmt.Errorf("conflict %q: this pair was there before", text)
		}
		seen[pair] = true
		b.conflicts = append(b.conflicts, pair)
	}
	return nil
}

// trace makes each item an app and its own request; its time is its index.
func (b *bppcInstance) trace() *trace.Trace {
	t := binsTrace([]string{"weight"}, []int64{b.capacity})
	t.Name = b.name
	t.Description = fmt.Sprintf("bin packing with conflicts, %s: %d items, bins of %d, %d conflicts", b.name, len(b.weights), b.capacity, len(b.conflicts))
	t.Source = map[string]any{
		"origin": "bppc",
		"files":  map[string]any{b.file: b.digest},
		"method": "time is the index of an item, app the item; a conflict is a rule each way",
	}
	for i, weight := range b.weights {
		addApp(t.Instance, fmt.Sprintf("i%05d", i), []int64{weight})
		arrive(t, float64(i), int32(i), 1)
	}
	for _, c := range b.conflicts {
		t.Instance.Rules = append(t.Instance.Rules, binpack.Rule{A: c[0], B: c[1]}, binpack.Rule{A: c[1], B: c[0]})
	}
	return t
}
