package convert

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/bound"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// tinyAzure: bin 0 lasts from 0 s, bin 1 from 300 s, bin 2 from 600 s.
func tinyAzure() map[string]string {
	return map[string]string{
		"flav_map.txt":           "1,0.75 a\n2,3.5 g\n",
		"interval_map.txt.gz":    "0 0\n300 1\n600 2\n900 2\n",
		"v1.dev.txt.gz":          "300 a,a,g,|,a\n600 g,|\n900 \n",
		"v1.dev.c2100000.txt":    "300 U1,C2,U0,|,U1\n600 U2,|\n900 \n",
		"v1.train.txt":           "300 a\n",
		"README.md":              "not part of the data",
		"v1.dev.c2100000.md.txt": "",
	}
}

func TestAzure(t *testing.T) {
	var skipped []string
	opt := Defaults()
	opt.Warn = func(text string) { skipped = append(skipped, text) }
	files := tinyAzure()
	delete(files, "v1.dev.c2100000.md.txt")
	tr := convert(t, "azure", opt, write(t, files))[0]
	require.Len(t, skipped, 1)
	assert.Contains(t, skipped[0], "v1.train.txt: no file has its lifetimes")
	assert.Equal(t, "azure-v1-dev", tr.Name)
	inst := tr.Instance
	assert.Equal(t, []binpack.Dimension{{Name: "cpu", One: 1}, {Name: "memory", One: 1}}, inst.Dimensions)
	assert.Equal(t, []binpack.MachineLine{{Name: "host", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{64, 448e9}}}, inst.Machines)
	require.Len(t, inst.Apps, 2)
	assert.Equal(t, []int64{1, 75e7}, inst.Apps[0].Demand)
	assert.Negative(t, inst.Apps[0].Expected)
	assert.Equal(t, []trace.Request{
		{Name: "r00000", App: 0, Count: 2},
		{Name: "r00001", App: 1, Count: 1},
		{Name: "r00002", App: 0, Count: 1},
		{Name: "r00003", App: 1, Count: 1},
	}, tr.Requests)
	assert.Equal(t, []trace.Event{
		{Time: 300, Kind: trace.Create, Request: 0, Count: 2},
		{Time: 300, Kind: trace.Create, Request: 1, Count: 1},
		{Time: 300, Kind: trace.Delete, Request: 1, Count: 1}, // lived for less than a tick
		{Time: 300, Kind: trace.Create, Request: 2, Count: 1},
		{Time: 600, Kind: trace.Delete, Request: 0, Count: 1}, // the other one stays
		{Time: 600, Kind: trace.Delete, Request: 2, Count: 1},
		{Time: 600, Kind: trace.Create, Request: 3, Count: 1},
		{Time: 1200, Kind: trace.Delete, Request: 3, Count: 1},
	}, tr.Events)
}

// Rows from one second until another; a machine that outlives the second one stays.
func TestAzureRows(t *testing.T) {
	files := tinyAzure()
	delete(files, "v1.dev.c2100000.md.txt")
	dir := write(t, files)
	tr := convert(t, "azure", Options{Until: 600}, dir)[0]
	assert.Equal(t, []trace.Event{
		{Time: 300, Kind: trace.Create, Request: 0, Count: 2},
		{Time: 300, Kind: trace.Create, Request: 1, Count: 1},
		{Time: 300, Kind: trace.Delete, Request: 1, Count: 1},
		{Time: 300, Kind: trace.Create, Request: 2, Count: 1},
	}, tr.Events)
	assert.Contains(t, tr.Description, "4 virtual machines in 2 batches, 3 of them stay")
	tr = convert(t, "azure", Options{From: 600}, dir)[0]
	assert.Equal(t, []trace.Event{
		{Time: 600, Kind: trace.Create, Request: 0, Count: 1},
		{Time: 1200, Kind: trace.Delete, Request: 0, Count: 1},
	}, tr.Events)
	for _, opt := range []Options{{From: 600, Until: 600}, {From: -1}, {Until: -1}} {
		err := Convert("azure", []string{dir}, opt, func(*trace.Trace, int) error { return nil })
		require.ErrorContains(t, err, "no second lies between")
	}
}

func TestAzureErrors(t *testing.T) {
	rows, lives := "v1.dev.txt.gz", "v1.dev.c2100000.txt"
	for _, tt := range []struct{ file, text, want string }{
		{"flav_map.txt", "1 a\n", `flav_map.txt:1: flavour "1 a": want cpu,memory letter`},
		{"flav_map.txt", "1,1 a\n2,2 a\n", `flav_map.txt:2: flavour "a": duplicate letter`},
		{"flav_map.txt", "1,x a\n", `flav_map.txt:1: memory "x": `},
		{"interval_map.txt.gz", "0\n", `interval_map.txt.gz:1: interval "0": want seconds and bin`},
		{"interval_map.txt.gz", "0 -1\n", `interval_map.txt.gz:1: bin "-1": not a count`},
		{rows, "300 a,z,g,|,a\n600 g,|\n900 \n", rows + `:1: place 1: unknown flavour "z"`},
		{rows, "300 a,a,g,a\n600 g,|\n900 \n", rows + ":1: 4 machines and separators, but 5 lifetimes"},
		{rows, "300 a,a,|,g,a\n600 g,|\n900 \n", rows + `:1: place 2: "|" has lifetime "U0"`},
		{rows, "x a\n", rows + `:1: second "x": not a time`},
		{rows, "301 a,a,g,|,a\n", rows + `:1: second "301": the lifetimes are of second "300"`},
		{rows, "300 a,a,g,|,a\n", rows + ":1: the file ends, 2 lines before that with lifetimes"},
		{rows, "300 \n600 g,|\n900 \n", rows + ":1: 1 machines and separators, but 5 lifetimes"},
		{rows, "300 a,a,g,|,\n600 g,|\n900 \n", rows + `:1: place 4: unknown flavour ""`},
		{rows, "300 a,a,g,|,a\n600 g,|\n900 \n1200 a\n", rows + ":4: lifetimes: the other file has no such line"},
		{lives, "300 U1,X2,U0,|,U1\n600 U2,|\n900 \n", rows + `:1: place 1: lifetime "X2": want U or C and a bin`},
		{lives, "300 U1,Cx,U0,|,U1\n600 U2,|\n900 \n", rows + `:1: place 1: lifetime "Cx": want U or C and a bin`},
		{lives, "300 U1,U7,U0,|,U1\n600 U2,|\n900 \n", rows + `:1: place 1: lifetime "U7": unknown bin`},
	} {
		files := tinyAzure()
		delete(files, "v1.dev.c2100000.md.txt")
		files[tt.file] = tt.text
		require.ErrorContains(t, convertError("azure", write(t, files)), tt.want)
	}
	files := tinyAzure()
	delete(files, "v1.dev.c2100000.md.txt")
	files[rows], files[lives] = "300 \n", "300 U1\n"
	require.ErrorContains(t, convertError("azure", write(t, files)), rows+`:1: place 0: unknown flavour ""`)
	files[rows], files[lives] = "300 |,|\n", "300 |,|\n"
	require.ErrorContains(t, convertError("azure", write(t, files)), rows+":1: no virtual machine")
	require.ErrorContains(t, convertError("azure", write(t, tinyAzure())), "several files are named like v1.dev.c")
}

func TestAzurePublic(t *testing.T) {
	tr := converted(t, "azure", Defaults(), data(t, "azure-v1-flavors"))[0]
	items, left, cpu := 0, 0, int64(0)
	var changes []bound.Change
	for _, e := range tr.Events {
		r := tr.Requests[e.Request]
		change := bound.Change{Time: e.Time, App: r.App, Count: e.Count}
		if e.Kind == trace.Delete {
			left += int(e.Count)
			change.Count = -e.Count
		} else {
			items += int(e.Count)
			cpu += int64(e.Count) * tr.Instance.Apps[r.App].Demand[0]
		}
		changes = append(changes, change)
	}
	require.Equal(t, 14317, items-left, "censored")
	b := bound.VolumeOverTime(tr.Instance, changes, tr.MeasureFrom)
	assert.Equal(t, azureTable, tr.Description+"\n"+
		fmt.Sprintf("requests %d, events %d, cpu %d, until second %.0f\n", len(tr.Requests), len(tr.Events), cpu, tr.Events[len(tr.Events)-1].Time)+
		fmt.Sprintf("bound: %d machines at the peak, %.1f machine-hours\n", b.Machines, b.MachineSeconds/3600)+
		fmt.Sprintf("trace %s\n", short(t, tr)))
}

const azureTable = `Azure V1, v1.dev: 259159 virtual machines in 53109 batches, 14317 of them stay
requests 65049, events 146037, cpu 557907, until second 2099700
bound: 651 machines at the peak, 29343.4 machine-hours
trace 468a45f3550c
`
