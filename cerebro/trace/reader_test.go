package trace

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

// fromText reads a trace from texts by file name.
func fromText(texts map[string]string) (*Trace, error) {
	f := files{}
	for name, text := range texts {
		if err := f.add(name, inMemory([]byte(text))); err != nil {
			return nil, err
		}
	}
	return f.read()
}

// good is a trace in which every file and column is used.
func good() map[string]string {
	return map[string]string{
		"trace.yaml":   "name: good\ndimensions: [cpu, memory, gpu]\ndevices: [gpu]\nfleet: open\nmeasureFrom: 5\nsource: {seed: 1}\n",
		"machines.csv": "machine,type,count,cost,cpu,memory,gpu\nbig,a,,2,96,512Gi,8\nfew,b,2,,48,256Gi,0\n",
		"apps.csv": "app,group,types,cpu,memory,gpu,max_per_machine,spread_min,expected,lifetime\n" +
			"web,front,a|b,500m,1Gi,0,2,3,4,60\napi,front,,1,1Gi,0,2,3,,\ntrain,,a,8,64Gi,2,,,,\n",
		"rules.csv":  "app,other,max\nfront,train,1\n",
		"placed.csv": "request,app,machine,count,devices\nold,web,few-00001,2,\nt0,train,big-00000,1,1|0\n",
		"events.csv": "time,kind,request,app,count\n1,create,r1,web,3\n2,delete,r1,,1\n2,create,r2,train,1\n3,delete,r1,web,\n4,delete,old,,2\n",
	}
}

func TestLoad(t *testing.T) {
	tr, err := fromText(good())
	require.NoError(t, err)
	in := tr.Instance
	require.Equal(t, []binpack.Dimension{
		{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}, {Name: "gpu", One: 1, Device: true},
	}, in.Dimensions)
	require.Equal(t, []binpack.MachineLine{
		{Name: "big", Type: 0, Count: binpack.Unlimited, Cost: 2, Capacity: []int64{96000, 512 << 30, 8}},
		{Name: "few", Type: 1, Count: 2, Cost: 1, Capacity: []int64{48000, 256 << 30, 0}},
	}, in.Machines)
	require.Equal(t, []binpack.Group{{Name: "front", Limit: 2, SpreadMin: 3}, {Name: "train"}}, in.Groups)
	require.Equal(t, []binpack.App{
		{Name: "web", Group: 0, Types: []int32{0, 1}, Demand: []int64{500, 1 << 30, 0}, Expected: 4, Lifetime: 60},
		{Name: "api", Group: 0, Demand: []int64{1000, 1 << 30, 0}, Expected: -1, Lifetime: -1},
		{Name: "train", Group: 1, Types: []int32{0}, Demand: []int64{8000, 64 << 30, 2}, Expected: -1, Lifetime: -1},
	}, in.Apps)
	require.Equal(t, []binpack.Rule{{A: 0, B: 1, Max: 1}}, in.Rules)
	require.Equal(t, 2, tr.Initial)
	require.Equal(t, []Request{{"old", 0, 2}, {"t0", 2, 1}, {"r1", 0, 3}, {"r2", 2, 1}}, tr.Requests)
	require.Equal(t, []Placed{
		{Request: 0, Line: 1, Index: 1, Count: 2},
		{Request: 1, Line: 0, Index: 0, Count: 1, Devices: []Device{{Dimension: 2, Index: 0}, {Dimension: 2, Index: 1}}},
	}, tr.Placed)
	require.Equal(t, []Event{{1, Create, 2, 3}, {2, Delete, 2, 1}, {2, Create, 3, 1}, {3, Delete, 2, 2}, {4, Delete, 0, 2}}, tr.Events)
	require.Equal(t, 5.0, tr.MeasureFrom)
	require.Equal(t, "few-00001", tr.MachineName(1, 1))
}

// A file's own way of writing is not part of the trace.
func TestLoadOtherWriting(t *testing.T) {
	want, err := fromText(good())
	require.NoError(t, err)
	_, wantDigest, err := want.Digests()
	require.NoError(t, err)
	for name, change := range map[string]func(map[string]string){
		"last line without newline": func(f map[string]string) { f["events.csv"] = strings.TrimSuffix(f["events.csv"], "\n") },
		"lines ending in CRLF":      func(f map[string]string) { f["apps.csv"] = strings.ReplaceAll(f["apps.csv"], "\n", "\r\n") },
		"quotes":                    func(f map[string]string) { f["rules.csv"] = "\"app\",other,max\n\"front\",train,1\n" },
		"other quantities": func(f map[string]string) {
			f["machines.csv"] = "machine,type,count,cost,cpu,memory,gpu\nbig,a,,2.0,96000m,0.5Ti,8000m\nfew,b,2,1e0,4.8e1,256Gi,0\n"
		},
		"other order of columns": func(f map[string]string) {
			f["placed.csv"] = "devices,count,machine,app,request\n,2,few-00001,web,old\n0|1,1,big-00000,train,t0\n"
		},
		"optional columns left out": func(f map[string]string) {
			f["machines.csv"] = "machine,type,count,cpu,memory,gpu\nbig,a,,96,512Gi,8\nfew,b,2,48,256Gi,0\n"
			want.Instance.Machines[0].Cost = 1
		},
		"other YAML": func(f map[string]string) {
			f["trace.yaml"] = "source:\n  seed: 0x1\nfleet: 'open'\ndevices:\n- gpu\nmeasureFrom: 5.0\ndimensions:\n  - cpu\n  - memory\n  - gpu\nname: good # really\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := good()
			before := want.Instance.Machines[0].Cost
			change(f)
			_, wantDigest, _ := want.Digests()
			got, err := fromText(f)
			require.NoError(t, err)
			require.Equal(t, want, got)
			_, digest, err := got.Digests()
			require.NoError(t, err)
			require.Equal(t, wantDigest, digest)
			want.Instance.Machines[0].Cost = before
		})
	}
	_, again, _ := want.Digests()
	require.Equal(t, wantDigest, again)
}

// Names of all kinds, and numbers with two texts, come back as they were.
func TestRoundTripOddities(t *testing.T) {
	f := good()
	f["events.csv"] = "time,kind,request,app,count\n-0,create,\"a \"\"b\"\", c\",web,1\n0, create,x,web,1\n"
	_, err := fromText(f)
	require.EqualError(t, err, `events.csv:3: kind " create": want create or delete`)
	f["events.csv"] = strings.Replace(f["events.csv"], " create", "create", 1) + "1e-7,create, é|:,web,1\n"
	tr, err := fromText(f)
	require.NoError(t, err)
	requireRoundTrip(t, tr)
	require.Equal(t, `a "b", c`, tr.Requests[2].Name)
	require.Equal(t, "time,kind,request,app,count\n0,create,\"a \"\"b\"\", c\",web,1\n0,create,x,web,1\n0.0000001,create, é|:,web,1\n", string(tr.encodeEvents()))
}

// requireRoundTrip reads what is written for tr and compares.
func requireRoundTrip(t *testing.T, tr *Trace) {
	t.Helper()
	contents, err := tr.canonical()
	require.NoError(t, err)
	texts := map[string]string{}
	for _, c := range contents {
		texts[c.name] = string(c.text)
	}
	again, err := fromText(texts)
	require.NoError(t, err)
	instance, whole, err := tr.Digests()
	require.NoError(t, err)
	instanceAgain, wholeAgain, err := again.Digests()
	require.NoError(t, err)
	require.Equal(t, instance, instanceAgain)
	require.Equal(t, whole, wholeAgain)
	a, b := *tr, *again
	require.Equal(t, math.IsNaN(a.MeasureFrom), math.IsNaN(b.MeasureFrom))
	if math.IsNaN(a.MeasureFrom) { // not equal to itself
		a.MeasureFrom, b.MeasureFrom = 0, 0
	}
	a.Source, b.Source = nil, nil // 1.0 comes back as 1; the digest says the rest
	require.Equal(t, a, b)
}

func TestLoadFolders(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for _, name := range []string{"b", "a"} {
		for file, text := range good() {
			write(name+"/"+file, text)
		}
	}
	write("a/README.md", "x")
	write("a/LICENSE", "x")
	write("a/.hidden/x", "x")
	write("README", "x")
	_, err := LoadAll(filepath.Join(dir, "none"), DefaultUnpacked)
	require.ErrorContains(t, err, "none: no such file or directory: a trace is a folder or a .tar.gz file")
	traces, err := LoadAll(dir, DefaultUnpacked)
	require.NoError(t, err)
	require.Len(t, traces, 2)
	one, err := LoadAll(filepath.Join(dir, "a"), DefaultUnpacked)
	require.NoError(t, err)
	require.Equal(t, one[0], traces[0])

	require.NoError(t, one[0].WriteTarGz(filepath.Join(dir, "c.tar.gz")))
	require.NoError(t, one[0].WriteTarGz(filepath.Join(dir, "d.tar.gz")))
	c, err := os.ReadFile(filepath.Join(dir, "c.tar.gz"))
	require.NoError(t, err)
	d, err := os.ReadFile(filepath.Join(dir, "d.tar.gz"))
	require.NoError(t, err)
	require.Equal(t, c, d)
	traces, err = LoadAll(dir, DefaultUnpacked)
	require.NoError(t, err)
	require.Len(t, traces, 4)
	require.Equal(t, traces[0], traces[3])
	for cut := range c {
		_, err := ParseArchive(c[:cut], DefaultUnpacked)
		require.Error(t, err, cut)
	}

	write("loose.csv", "x")
	_, err = LoadAll(dir, DefaultUnpacked)
	require.ErrorContains(t, err, "loose.csv: neither a folder nor a .tar.gz file")
	_, err = LoadAll(t.TempDir(), DefaultUnpacked)
	require.ErrorContains(t, err, "holds none")
	_, err = Load(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	write("b/notes.txt", "x")
	_, err = Load(filepath.Join(dir, "b"))
	require.ErrorContains(t, err, "/b: notes.txt: unknown file")
}

// separator parts the files of a fuzz input.
const separator = "\x00"

func joinFiles(texts map[string]string) []byte {
	var parts []string
	for _, name := range fuzzFiles {
		parts = append(parts, texts[name])
	}
	return []byte(strings.Join(parts, separator))
}

var fuzzFiles = []string{manifestFile, machinesFile, appsFile, rulesFile, placedFile, eventsFile}

func FuzzTraceReader(f *testing.F) {
	f.Add(joinFiles(good()))
	for _, c := range malformedTraces {
		texts := good()
		if _, ok := texts[c.file]; ok && c.old != "" {
			texts[c.file] = strings.Replace(texts[c.file], c.old, c.new, 1)
			f.Add(joinFiles(texts))
		}
	}
	f.Add([]byte("dimensions: [a]\nfleet: open" + separator + "machine,type,count,a\nm,,,1" + separator + "app,a\nx,1" + separator + separator + separator + "time,kind,request,app,count\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		texts := map[string]string{}
		for i, text := range strings.Split(string(data), separator) {
			// An optional file that is empty is an absent one.
			if i < len(fuzzFiles) && (text != "" || traceFiles[fuzzFiles[i]]) {
				texts[fuzzFiles[i]] = text
			}
		}
		tr, err := fromText(texts)
		if err != nil {
			return
		}
		requireRoundTrip(t, tr)
		requireOrdered(t, tr, tr.Order(1, 1))
	})
}

func BenchmarkEventReader(b *testing.B) {
	const events = 1_000_000
	tr, err := fromText(good())
	require.NoError(b, err)
	buf := []byte("time,kind,request,app,count\n")
	for i := range events {
		kind, request := createText, i
		if i%2 == 1 {
			kind, request = deleteText, i-1
		}
		buf = strconv.AppendFloat(buf, float64(i)/7, 'f', -1, 64)
		buf = fmt.Appendf(buf, ",%s,request-%d,web,1\n", kind, request)
	}
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		fresh := &Trace{Instance: tr.Instance}
		r, err := NewEventReader(bytes.NewReader(buf), fresh)
		require.NoError(b, err)
		n := 0
		for _, err = r.Next(); err == nil; _, err = r.Next() {
			n++
		}
		require.ErrorIs(b, err, io.EOF)
		require.Equal(b, events, n)
	}
	b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func TestMachineNames(t *testing.T) {
	in := &binpack.Instance{Machines: []binpack.MachineLine{{Name: "a", Count: 200_000}, {Name: "b-1", Count: 1}, {Name: "c", Count: binpack.Unlimited}}}
	names := NewMachineNames(in)
	for want, at := range map[string][2]int32{
		"a-00000": {0, 0}, "a-99999": {0, 99999}, "a-100000": {0, 100000}, "b-1": {1, 0}, "c-2147483647": {2, math.MaxInt32},
	} {
		require.Equal(t, want, names.Name(at[0], at[1]))
		line, index, err := names.Parse(want)
		require.NoError(t, err)
		require.Equal(t, [2]int32{line, index}, at)
	}
	for _, name := range []string{"", "-", "a", "a-", "a-0", "a-200000", "a--0001", "a-+0001", "b", "b-00000", "b-1-00000", "c-2147483648", "c-099999"} {
		_, _, err := names.Parse(name)
		require.Error(t, err, name)
	}
}

func TestSourceRoundTrip(t *testing.T) {
	tr, err := fromText(good())
	require.NoError(t, err)
	texts := []string{
		"", " ", "\n", "\n a", "a\n", " a", "a ", "yes", "null", "~", "1", "1e3", "0x1f", "2024-01-01", "<<", "---", "...", "#", "a: b", "a #b",
		"'", `"`, "\t", "\u00a0", "\u2028", "\ufeff", "\U0001f600", "\a", "é", "-", "?", "|", "*a", "&a", "%", "`", "@", strings.Repeat("long ", 60),
	}
	tr.Source = map[string]any{
		"texts": texts, "int": uint64(math.MaxUint64), "float": 1e300, "small": 1e-300, "one": 1.0, "null": nil,
		"bool": true, "nested": map[string]string{"b": "x", "a": "y"}, "deep": []any{map[string]any{"x": []int{1, 2}}}, "million": 1e6,
	}
	for _, s := range texts {
		tr.Source["key"+s] = s
		tr.Description = s
		requireRoundTrip(t, tr)
	}
	contents, err := tr.canonical()
	require.NoError(t, err)
	m, err := readManifest(bytes.NewReader(contents[len(contents)-1].text))
	require.NoError(t, err)
	for i, s := range texts {
		require.Equal(t, s, m.source["texts"].([]any)[i])
		require.Equal(t, s, m.source["key"+s])
	}
	require.Equal(t, uint64(math.MaxUint64), m.source["int"])
	require.Equal(t, 1e300, m.source["float"])
	require.Equal(t, 1e-300, m.source["small"])
	for _, bad := range []any{math.NaN(), math.Inf(1), func() {}, map[int]string{1: "x"}} {
		tr.Source = map[string]any{"bad": bad}
		require.ErrorContains(t, tr.Write(filepath.Join(t.TempDir(), "x")), "source: bad: ")
	}
}
