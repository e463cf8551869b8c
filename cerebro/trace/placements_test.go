package trace

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const placementsText = `time,request,item,app,machine,devices,kind
0.1,r1,0,web,m-00000,,place
0.30000000000000004,r2,1,train,m-00001,0|1,place
1e15,"a,b",0,web,,,unplaced
1000000000000000,r1,0,web,m-00001,,move
1000000000000000,r1,0,web,m-00001,,remove
`

func readAll(text string) ([]Placement, error) {
	r, err := NewPlacementReader("placements.csv", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	var all []Placement
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

func TestPlacements(t *testing.T) {
	want := []Placement{
		{0.1, "r1", 0, "web", "m-00000", "", Place},
		{0.30000000000000004, "r2", 1, "train", "m-00001", "0|1", Place},
		{1e15, "a,b", 0, "web", "", "", Unplaced},
		{1e15, "r1", 0, "web", "m-00001", "", Move},
		{1e15, "r1", 0, "web", "m-00001", "", Remove},
	}
	got, err := readAll(placementsText)
	require.NoError(t, err)
	require.Equal(t, want, got)

	path := filepath.Join(t.TempDir(), "placements.csv")
	f, err := CreatePlacements(path)
	require.NoError(t, err)
	for _, p := range want {
		require.NoError(t, f.Write(p))
	}
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist, "a file under its name before it is complete")
	require.NoError(t, f.Commit())
	f.Close()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(placementsText, "1e15", "1000000000000000", 1), string(text))
	got, err = ReadPlacements(path)
	require.NoError(t, err)
	require.Equal(t, want, got)

	// One that is given up leaves the old file and nothing else.
	f, err = CreatePlacements(path)
	require.NoError(t, err)
	require.NoError(t, f.Write(want[0]))
	f.Close()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, again)

	_, err = CreatePlacements(filepath.Dir(path))
	require.ErrorContains(t, err, "not a regular file")
}

func TestPlacementsRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{placementsText, "", "placements.csv:1: no header line"},
		{"devices,", "device,", `placements.csv:1: missing column "devices"`},
		{",kind", ",kind,score", `placements.csv:1: unknown column "score"`},
		{"0.1,r1,0,web,m-00000,,place", "0.1,r1,0,we", "placements.csv:2: the line ends before machine: 4 fields, want 7"},
		{"0.1,r1", "NaN,r1", `placements.csv:2: time "NaN": not a finite decimal number`},
		{"0.1,r1", "0.1,", `placements.csv:2: request "": empty`},
		{"r1,0,web", "r1,-1,web", `placements.csv:2: item "-1": negative`},
		{"r1,0,web", "r1,x,web", `placements.csv:2: item "x": not a whole number`},
		{"r1,0,web", "r1,0,", `placements.csv:2: app "": empty`},
		{"m-00000,,place", ",,place", `placements.csv:2: machine "": placed on no machine`},
		{"m-00000,,place", "m-00000,,put", `placements.csv:2: kind "put": want place, remove, unplaced or move`},
		{"m-00000,,place", ",,move", `placements.csv:2: machine "": moved to no machine`},
		{"m-00000,,place", "m-00000,,unplaced", `placements.csv:2: machine "m-00000": an unplaced item has no machine`},
		{"0|1", "0|", `placements.csv:3: devices "0|": device "": not an index`},
		{"0|1", "gpu:x", `placements.csv:3: devices "gpu:x": device "gpu:x": not an index`},
		{",,unplaced", ",1,unplaced", `placements.csv:4: devices "1": devices without a machine`},
	} {
		require.Contains(t, placementsText, c.old)
		_, err := readAll(strings.Replace(placementsText, c.old, c.new, 1))
		require.EqualError(t, err, c.want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestPlacementWriterReportsErrors(t *testing.T) {
	w := NewPlacementWriter(full{})
	require.NoError(t, w.Write(Placement{Kind: Place}))
	require.ErrorContains(t, w.Flush(), "disk full")
}

func FuzzPlacements(f *testing.F) {
	f.Add(placementsText)
	f.Add("time,request,item,app,machine,devices,kind\n-0,a,1,b,,,remove\n")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := readAll(text)
		if err != nil {
			return
		}
		var buf bytes.Buffer
		w := NewPlacementWriter(&buf)
		for _, p := range read {
			require.False(t, math.IsNaN(p.Time) || math.IsInf(p.Time, 0))
			require.NoError(t, w.Write(p))
		}
		require.NoError(t, w.Flush())
		again, err := readAll(buf.String())
		require.NoError(t, err)
		require.Equal(t, read, again)
	})
}

func BenchmarkPlacementWriter(b *testing.B) {
	w := NewPlacementWriter(io.Discard)
	p := Placement{Time: 1234.5678, Request: "request-17", Item: 3, App: "web", Machine: "m-00042", Kind: Place}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(p); err != nil {
			b.Fatal(err)
		}
	}
}
