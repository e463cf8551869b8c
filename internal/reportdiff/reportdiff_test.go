package reportdiff

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

func part(name string, rows ...sheet.DataRow) sheet.DataPart {
	return sheet.DataPart{Name: name, Inputs: map[string]string{"seed": "1"}, Rows: rows}
}

func row(name, digest string, runs ...sheet.Number) sheet.DataRow {
	return sheet.DataRow{Name: name, Digest: digest, Figures: []sheet.DataFigure{{Name: "machines", Runs: runs}}}
}

func data(parts ...sheet.DataPart) *sheet.Data {
	return &sheet.Data{Kind: kinds[0], Version: sheet.DataVersion, Verdict: "v", Parts: parts}
}

// Of 1, 2, 3 the standard error is 1 ÷ √3; Student's t with two degrees of freedom is 4.303, with
// four 2.776.
func TestIntervals(t *testing.T) {
	x, y := []float64{10, 20, 30}, []float64{11, 22, 33}
	paired := difference(x, y, true)
	assert.InDelta(t, 2, float64(paired.Difference), 1e-9)
	assert.InDelta(t, 2-4.303/math.Sqrt(3), float64(paired.Low), 1e-3)
	assert.Equal(t, unproven, paired.Change)
	assert.Equal(t, higher, difference(x, []float64{12, 22, 32}, true).Change, "every run is 2 higher")
	assert.Equal(t, lower, difference(x, []float64{8, 18, 28}, true).Change)

	welch := difference([]float64{1, 2, 3}, []float64{11, 12, 13}, false)
	assert.InDelta(t, 10+2.776*math.Sqrt(2./3), float64(welch.High), 1e-3)
	assert.Equal(t, higher, welch.Change)
	assert.Equal(t, unproven, difference(x, y, false).Change)

	assert.Equal(t, same, difference(x, x, true).Change)
	assert.Equal(t, same, difference([]float64{7}, []float64{7}, false).Change)
	one := difference([]float64{7}, []float64{9}, true)
	assert.Equal(t, single, one.Change)
	assert.True(t, math.IsNaN(float64(one.Low)), "one run has no interval")
	assert.Equal(t, missing, difference(x, []float64{1, math.NaN(), 2}, true).Change)
}

func TestCompare(t *testing.T) {
	a := data(part("day", row("bestfit", "", 5, 6), row("policy.yaml", "sha256:1", 4, 4), row("gone", "", 1, 1)))
	b := data(part("day", row("bestfit", "", 5, 6), row("policy.yaml", "sha256:2", 3, 3), row("new", "", 2, 2)))
	d := compare(a, b)
	assert.Equal(t, []Input{{"", "policy.yaml", "sha256:1", "sha256:2"}}, d.Inputs)
	require.Len(t, d.Traces, 1)
	assert.True(t, d.Traces[0].Paired, "a policy file is no input of the runs of others")
	assert.Empty(t, d.Overall)
	got := map[string]string{}
	for _, r := range d.Traces[0].Rows {
		got[r.Name] = r.Change
	}
	assert.Equal(t, map[string]string{"bestfit": same, "policy.yaml": lower, "gone": onlyA, "new": onlyB}, got)

	b.Parts[0].Inputs["seed"] = "2"
	d = compare(a, b)
	assert.Equal(t, Input{"day", "seed", "1", "2"}, d.Inputs[0])
	assert.False(t, d.Traces[0].Paired)

	b.Parts[0].Name = "night"
	d = compare(a, b)
	require.Len(t, d.Traces, 1, "two traces that are alone are compared")
	assert.Equal(t, Input{"day", "name", "day", "night"}, d.Inputs[0])
}

// Over traces, differences are paired by trace, and a trace of one page does not count.
func TestOverall(t *testing.T) {
	a := data(part("x", row("bestfit", "", 10, 12)), part("y", row("bestfit", "", 20)), part("z", row("bestfit", "", 500)))
	b := data(part("y", row("bestfit", "", 19)), part("x", row("bestfit", "", 9, 11)), part("new", row("bestfit", "", 1)))
	d := compare(a, b)
	require.Len(t, d.Traces, 4)
	require.Len(t, d.Overall, 1)
	r := d.Overall[0]
	assert.InDeltaSlice(t, []float64{15.5, 14.5, -1, -1, -1}, []float64{float64(r.A), float64(r.B), float64(r.Difference), float64(r.Low), float64(r.High)}, 1e-9)
	a.Parts[0].Rows = append(a.Parts[0].Rows, row("rare", "", 1))
	b.Parts[1].Rows = append(b.Parts[1].Rows, row("rare", "", 1))
	d = compare(a, b)
	assert.Len(t, d.Overall, 1, "what is not on all traces has no mean over them")
	var text strings.Builder
	require.NoError(t, d.Table(&text))
	assert.Contains(t, text.String(), "z: only in A\n")
	assert.Contains(t, text.String(), "new: only in B\n")
	out, err := json.Marshal(d)
	require.NoError(t, err)
	assert.Contains(t, string(out), `"trace":"z","only":"a"`)
}

// A file that is no page of ours is refused by name, with what is missing.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	page := func(text string) string { return "<html>\n" + sheet.DataOpen + text + sheet.DataClose + "\n</html>" }
	good := write("good.html", page(`{"kind":"sigma compare","version":1,"verdict":"v","parts":[]}`))
	for name, test := range map[string]struct{ text, want string }{
		"foreign.html": {"<html></html>", "foreign.html: no page of sigma compare or sigma mpa simulate or sigma flow simulate: it has no element " + sheet.DataOpen},
		"cut.html":     {"<html>" + sheet.DataOpen + "{", "cut.html: the page ends inside of its data"},
		"broken.html":  {page("{\n\"kind\":}"), "broken.html:3: data of the page: invalid character"},
		"later.html":   {page(`{"kind":"sigma compare","version":7}`), "later.html: version: the page's data are of version 7, and this program reads version 1"},
		"kind.html":    {page(`{"kind":"cooking","version":1}`), `kind.html: kind: unknown "cooking"; there are sigma compare, sigma mpa simulate, sigma flow simulate`},
		"rows.html":    {page(`{"kind":"sigma compare","version":1,"parts":[{"name":"p","inputs":{}}]}`), `rows.html: parts[0] "p": inputs or rows are missing`},
		"figures.html": {page(`{"kind":"sigma compare","version":1,"parts":[{"name":"p","inputs":{},"rows":[{"name":"r"}]}]}`), "parts[0].rows[0]: name or figures are missing"},
		"runs.html":    {page(`{"kind":"sigma compare","version":1,"parts":[{"name":"p","inputs":{},"rows":[{"name":"r","figures":[{"name":"f"}]}]}]}`), "parts[0].rows[0].figures[0]: name or runs are missing"},
		"twice.html":   {page(`{"kind":"sigma compare","version":1,"parts":[{"name":"p","inputs":{},"rows":[]},{"name":"p","inputs":{},"rows":[]}]}`), "two traces of one name"},
		"mpa.html":     {page(`{"kind":"sigma mpa simulate","version":1,"parts":[]}`), "good.html is a page of sigma compare, and "},
	} {
		_, err := Files(good, write(name, test.text))
		require.ErrorContains(t, err, test.want)
	}
	_, err := Files(filepath.Join(dir, "none.html"), good)
	require.ErrorIs(t, err, os.ErrNotExist)
	d, err := Files(good, good)
	require.NoError(t, err)
	assert.Equal(t, Page{good, "v"}, d.A)
}
