package trace

import (
	"bytes"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
)

func usageTrace() *Trace {
	return &Trace{
		Name: "u", MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}},
			Types:      []string{"n"}, Fleet: binpack.Open,
			Machines: []binpack.MachineLine{{Name: "n", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{4000, 1 << 33}}},
			Groups:   []binpack.Group{{Name: "web"}, {Name: "a,b"}},
			Apps: []binpack.App{
				{Name: "web", Demand: []int64{500, 1 << 30}, Expected: -1, Lifetime: -1},
				{Name: "a,b", Group: 1, Demand: []int64{250, 1 << 29}, Expected: -1, Lifetime: -1},
			},
		},
		Requests: []Request{{"r0", 0, 3}, {"ns/pod", 1, 1}},
		Events:   []Event{{0, Create, 0, 3}, {1, Create, 1, 1}},
	}
}

func packed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

const usageText = `app,item,dimension,start,step
web,,cpu,0,300,100m,,0.25,1.5,2
web,r0/1,cpu,-300,60,1
web,r0,memory,0,3600,1Gi,512Mi
web,former-pod,memory,0,3600,1Gi
"a,b",ns/pod,cpu,0,300,0
`

func TestReadUsage(t *testing.T) {
	tr := usageTrace()
	u, err := readUsage(tr, bytes.NewReader(packed(t, usageText)), 1<<20)
	require.NoError(t, err)
	require.Len(t, u.Series, 5)
	s := &u.Series[0]
	assert.Equal(t, float32(.1), s.At(0))
	assert.True(t, math.IsNaN(float64(s.At(300))))
	assert.Equal(t, float32(.25), s.At(899.9))
	assert.True(t, math.IsNaN(float64(s.At(1500))))
	assert.True(t, math.IsNaN(float64(s.At(-1))))
	assert.Equal(t, []float32{1 << 30, 1 << 29}, u.Series[2].Values)
	from, until := u.Span()
	assert.Equal(t, []float64{-300, 7200}, []float64{from, until})
	var got [][3]int32
	u.Items(tr, func(s *Series, request, number int32) { got = append(got, [3]int32{s.App, request, number}) })
	assert.Equal(t, [][3]int32{{0, -1, -1}, {0, 0, 1}, {0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {1, 1, 0}}, got)
}

func TestUsageComesBackAndIsNotInTheDigest(t *testing.T) {
	tr := usageTrace()
	_, before, err := tr.Digests()
	require.NoError(t, err)
	u, err := readUsage(tr, bytes.NewReader(packed(t, usageText)), 1<<20)
	require.NoError(t, err)
	tr.SetUsage(u)
	dir := t.TempDir()
	require.NoError(t, tr.Write(filepath.Join(dir, "t")))
	require.NoError(t, tr.WriteTarGz(filepath.Join(dir, "t.tar.gz")))
	for _, name := range []string{"t", "t.tar.gz"} {
		back, err := Load(filepath.Join(dir, name))
		require.NoError(t, err)
		_, after, err := back.Digests()
		require.NoError(t, err)
		assert.Equal(t, before, after)
		again, err := back.Usage()
		require.NoError(t, err)
		for i := range u.Series { // NaN is not equal to itself
			a, b := u.Series[i], again.Series[i]
			require.Len(t, b.Values, len(a.Values))
			for k := range a.Values {
				assert.Equal(t, math.Float32bits(a.Values[k]), math.Float32bits(b.Values[k]))
			}
			a.Values, b.Values = nil, nil
			assert.Equal(t, a, b)
		}
	}
	// A trace without usage replaces both.
	tr.SetUsage(nil)
	require.NoError(t, tr.Write(filepath.Join(dir, "t")))
	assert.NoFileExists(t, filepath.Join(dir, "t", usageFile))
	archived, err := tr.Archive()
	require.NoError(t, err)
	back, err := ParseArchive(archived, 1<<20)
	require.NoError(t, err)
	none, err := back.Usage()
	require.NoError(t, err)
	assert.Nil(t, none)
}

func TestUsageErrorsNameFileLineAndField(t *testing.T) {
	const head = "app,item,dimension,start,step\n"
	for text, want := range map[string]string{
		"":                                              "usage.csv.gz:1: no header line",
		"app,item\n":                                    `usage.csv.gz:1: header "app,item"`,
		head + "web,,cpu,0,300\n":                       "usage.csv.gz:2: row: 5 fields",
		head + "wbe,,cpu,0,300,1\n":                     `usage.csv.gz:2: app "wbe": unknown app`,
		head + "web,r0/3,cpu,0,300,1\n":                 `usage.csv.gz:2: item "r0/3"`,
		head + "web,ns/pod,cpu,0,300,1\n":               `usage.csv.gz:2: item "ns/pod"`,
		head + "web,,disk,0,300,1\n":                    `usage.csv.gz:2: dimension "disk"`,
		head + "web,,cpu,x,300,1\n":                     `usage.csv.gz:2: start "x"`,
		head + "web,,cpu,0,0,1\n":                       `usage.csv.gz:2: step "0"`,
		head + "web,,cpu,0,NaN,1\n":                     `usage.csv.gz:2: step "NaN"`,
		head + "web,,cpu,0,300,1,-2\n":                  `usage.csv.gz:2: value 2 "-2": negative`,
		head + "web,,cpu,0,300,Inf\n":                   `usage.csv.gz:2: value 1 "Inf"`,
		head + "web,,cpu,0,1,1\nweb,,cpu,0,1,1":         `usage.csv.gz:3: item "": a second series`,
		head + "web,,cpu,0,1,\"1\n":                     "usage.csv.gz:2",
		head + "web,r0,cpu,0,1,1\nweb,r0/2,cpu,0,1,1":   `usage.csv.gz:3: item "r0/2": a second series`,
		head + "web,r0/2,cpu,0,1,1\nweb,r0,cpu,0,1,1":   `usage.csv.gz:3: item "r0": a second series`,
		head + "web,gone,cpu,0,1,1\nweb,gone,cpu,0,1,1": `usage.csv.gz:3: item "gone": a second series`,
	} {
		_, err := readUsage(usageTrace(), bytes.NewReader(packed(t, text)), 1<<20)
		require.ErrorContains(t, err, want, text)
	}
	_, err := readUsage(usageTrace(), bytes.NewReader([]byte("app")), 1<<20)
	require.ErrorContains(t, err, "usage.csv.gz: ")
	_, err = readUsage(usageTrace(), bytes.NewReader(packed(t, usageText)), 40)
	require.ErrorContains(t, err, "more than 40 B when unpacked")
	dir := filepath.Join(t.TempDir(), "t")
	require.NoError(t, usageTrace().Write(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, usageFile), packed(t, head+"x,,cpu,0,1,1\n"), 0o644))
	loaded, err := Load(dir)
	require.NoError(t, err)
	_, err = loaded.Usage()
	assert.ErrorContains(t, err, "trace u: usage.csv.gz:2: app")
}

func FuzzUsageReader(f *testing.F) {
	f.Add(usageText)
	f.Add("app,item,dimension,start,step\nweb,,memory,1e3,.5,1Mi,,3e2,0.1u\n")
	f.Fuzz(func(t *testing.T, text string) {
		tr := usageTrace()
		u, err := readUsage(tr, bytes.NewReader(packed(t, text)), 1<<20)
		if err != nil {
			return
		}
		written, err := tr.encodeUsage(u)
		require.NoError(t, err)
		again, err := readUsage(tr, bytes.NewReader(written), 1<<24)
		require.NoError(t, err)
		require.Len(t, again.Series, len(u.Series))
		for i := range u.Series {
			for k, v := range u.Series[i].Values {
				require.Equal(t, math.Float32bits(v), math.Float32bits(again.Series[i].Values[k]))
			}
		}
	})
}

// Empty values at the ends of series are no part of the span.
func TestSpanIsOfSamples(t *testing.T) {
	none := float32(math.NaN())
	u := &Usage{Series: []Series{
		{Start: -100, Step: 10, Values: []float32{none, none, 1, none, 2, none}},
		{Start: -1000, Step: 10, Values: []float32{none}},
		{Start: 0, Step: 60, Values: []float32{1, none}},
	}}
	from, until := u.Span()
	assert.Equal(t, []float64{-80, 60}, []float64{from, until})
	from, until = (&Usage{}).Span()
	assert.Greater(t, from, until)
}
