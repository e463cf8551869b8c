package records

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name      string
		value     float64
		must, aim Target
		want      string
	}{
		{"no target", 1, Target{}, Target{}, ""},
		{"below a maximum", 1, AtMost(2), Target{}, "must"},
		{"on a maximum", 2, AtMost(2), AtMost(1), "must"},
		{"on the aim", 1, AtMost(2), AtMost(1), "aim"},
		{"above a maximum", 2.001, AtMost(2), AtMost(1), "**missed**"},
		{"below a minimum", .99, AtLeast(1), Target{}, "**missed**"},
		{"the aim without the must", 3, AtMost(2), AtMost(4), "**missed**"},
		{"only an aim, reached", 3, Target{}, AtLeast(3), "aim"},
		{"only an aim, not reached", 2, Target{}, AtLeast(3), "not the aim"},
	} {
		l := Line{Value: c.value, Must: c.must, Aim: c.aim}
		assert.Equal(t, c.want, l.verdict(), c.name)
	}
}

func TestLineRow(t *testing.T) {
	l := Line{Work: "w", Figure: "f", Value: 2.345, SE: .1234, Peers: "bestfit 3.00", Must: AtMost(3), Aim: AtLeast(2.5)}
	assert.Equal(t, []string{"w", "f", "2.35 ± 0.12", "bestfit 3.00", "≤ 3.00", "≥ 2.50", "must"}, l.Row())
	l.Format, l.SE = "%.0f", 0
	assert.Equal(t, []string{"w", "f", "2", "bestfit 3.00", "≤ 3", "≥ 2", "must"}, l.Row())
}

// What a table writes is what it reads back.
func TestTable(t *testing.T) {
	table := LineTable()
	first := Line{Work: "a", Figure: "b", Value: 1, Must: AtMost(1)}
	second := Line{Work: "c", Figure: "d", Value: 2}
	table.Rows = [][]string{first.Row(), second.Row()}
	text := table.Markdown()
	assert.Equal(t, `| work | figure | Sigma | peers | must | aim | reached |
| --- | --- | ---: | --- | ---: | ---: | --- |
| a | b | 1.00 |  | ≤ 1.00 |  | must |
| c | d | 2.00 |  |  |  |  |
`, text)
	read, err := ParseTables("text\n\n" + text + "\nmore | text\n\n" + text)
	require.NoError(t, err)
	assert.Equal(t, []Table{table, table}, read)

	_, err = ParseTables("| a | b |\n| --- | --- |\n| 1 |\n")
	require.EqualError(t, err, "line 3: 1 cells in a table of 2 columns")
}

func TestInsert(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const page = "# Page\n<!-- a -->\n\nold\n\n<!-- end of a -->\ntail\n"
	require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	require.NoError(t, Insert(path, "a", "\nnew\n"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(page, "old", "new", 1), string(text))
	require.ErrorContains(t, Insert(path, "b", "new"), `want a line "<!-- b -->" and after it "<!-- end of b -->"`)
}

func TestRunner(t *testing.T) {
	var log bytes.Buffer
	r := &Runner{Sigma: "/bin/sh", Data: "/data/sets", Log: &log}
	out, seconds, err := r.Run(t.Context(), Sigma("-c", "echo out; echo $0", "/data/sets/a"))
	require.NoError(t, err)
	assert.Equal(t, "out\n/data/sets/a\n", string(out))
	assert.Equal(t, []string{`bin/sigma -c "echo out; echo $0" $SIGMA_DATA/a`}, r.Noted())
	assert.InDelta(t, seconds, r.Seconds(), 0)

	_, _, err = r.Run(t.Context(), Command{Program: "sh", Args: []string{"-c", "echo what went wrong >&2; exit 3"}})
	require.ErrorContains(t, err, "exit status 3\nwhat went wrong")

	_, _, err = r.Run(t.Context(), Command{Program: "no-such-program"})
	require.ErrorContains(t, err, "no-such-program: ")

	require.NoError(t, r.Loop("for all", func() error {
		_, _, err := r.Run(t.Context(), Command{Program: "true"})
		return err
	}))
	assert.Equal(t, "for all", r.Noted()[len(r.Noted())-1])

	before := len(r.Noted())
	_, _, err = r.Run(t.Context(), Command{Program: "sh", Args: []string{"-c", `test "$A" = 1`}, Env: []string{"A=1"}, Note: "shown"})
	require.NoError(t, err)
	assert.Equal(t, []string{"shown"}, r.Noted()[before:])
}

// An interrupted command says so, not that it was killed.
func TestRunnerInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &Runner{Log: &bytes.Buffer{}}
	p, err := r.Start(ctx, Command{Program: "sleep", Args: []string{"60"}})
	require.NoError(t, err)
	cancel()
	_, err = p.Wait()
	require.ErrorIs(t, err, context.Canceled)
}

func TestSummary(t *testing.T) {
	docs := t.TempDir()
	line := func(l Line) Table {
		table := LineTable()
		table.Rows = [][]string{l.Row()}
		return table
	}
	save := func(name string, tables ...Table) {
		p := NewPage(name)
		for _, table := range tables {
			p.Table(table)
		}
		require.NoError(t, p.Save(filepath.Join(docs, name)))
	}
	off := Line{Work: "off", Figure: "f", Value: 5}
	save("a.md", line(off), line(Line{Work: "w, May → June, 4", Figure: "f", Value: 3, Must: AtMost(2), Peers: "peer 4.00; worst 5"}), line(Line{Work: "x", Figure: "f", Value: 1, Aim: AtMost(2)}))
	save("b.md", Table{Heads: []string{"agent", "cost", "other"}, Right: []int{1}, Rows: [][]string{{"one", "1", "a"}, {"two", "2", "b"}}})
	list := []Capability{{
		Title: "T", About: "About.",
		Parts: []Highlight{
			{Name: "a", Page: "a.md", Maker: "make NAME", Lines: []Pick{{Work: "off", Figure: "f", As: "clock", Offline: true}, {Work: "w, *, 4", Figure: "f", As: "as", Limit: "0", Brief: true}, {Work: "gone", Figure: "f", As: "a figure that is gone"}}},
			{Name: "b", Page: "b.md", Maker: "make NAME", Table: Columns([]string{"agent", "cost"}, []string{"two"})},
			{Name: "c", Page: "c.md", Maker: "make NAME"},
		},
	}}
	require.NoError(t, Summarise(docs, list))
	text, err := os.ReadFile(filepath.Join(docs, "results.md"))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(text), "\nOf ")
	assert.Equal(t, `the 2 targets with *must* and *aim*, 1 are missed (“w, May → June, 4”); 1 reach the aim.

## T

About.

| figure | Sigma | peers | limit | must | aim | reached |
| --- | ---: | --- | ---: | ---: | ---: | --- |
| as | 3.00 | peer 4.00 | 0 | ≤ 2.00 |  | **missed** |
| clock (offline only) | 5.00 |  |  |  |  |  |

| agent | cost |
| --- | ---: |
| two | 2 |

All figures, by `+"`make NAME`"+`: [a](a.md), [b](b.md).

Not measured: a figure that is gone; section c.
`, after)

	list[0].Parts[1].Table = Columns([]string{"agent", "latency"}, nil)
	require.EqualError(t, Summarise(docs, list), "b.md: no table has the columns agent, latency")
	same, err := os.ReadFile(filepath.Join(docs, "results.md"))
	require.NoError(t, err)
	assert.Equal(t, string(text), string(same), "a summary that fails leaves the old one")
}
