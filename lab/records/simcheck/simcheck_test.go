package simcheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/records"
)

func TestTheoryTable(t *testing.T) {
	text, err := theoryTable("| M/M/1 | 2.333 | 2.328 | -0.22 % |\n")
	require.NoError(t, err)
	assert.Equal(t, "|  | theory | simulated | deviation |\n| --- | ---: | ---: | ---: |\n| M/M/1 | 2.333 | 2.328 | -0.22 % |\n", text)
	_, err = theoryTable("| M/M/1 | 2.333 |\n")
	require.ErrorContains(t, err, "the rows of the theory: line 2")
	_, err = theoryTable("")
	require.EqualError(t, err, "the tests of the simulator wrote no rows")
}

// The page that is published has a table of theory and one of each application.
func TestHighlight(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", Page))
	require.NoError(t, err)
	tables, err := records.ParseTables(string(text))
	require.NoError(t, err)
	table, err := Highlight().Table(tables)
	require.NoError(t, err)
	var names []string
	for _, row := range table.Rows {
		names = append(names, row[0])
	}
	assert.Equal(t, "a real server, "+strings.Join(Apps(), " a real server, "), strings.Join(names[1:], " "))
	for _, name := range Apps() {
		assert.Contains(t, string(text), "\n**"+name+"**: ")
	}
	for _, row := range table.Rows[1:] {
		assert.Len(t, strings.Split(row[2], ", "), 3, "three loads")
	}
	_, err = Highlight().Table(nil)
	require.Error(t, err)
}

// The tests whose rows the page shows are where Run looks for them.
func TestTheoryTestsExist(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", theoryPackage, "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		all.Write(text)
	}
	for _, name := range theoryTests {
		assert.Contains(t, all.String(), "func "+name+"(")
	}
	assert.Contains(t, all.String(), theoryVar)
}

func TestRefusals(t *testing.T) {
	cfg := Config{Docs: t.TempDir(), Out: t.TempDir(), Runs: 1, Seconds: 1, App: "ioo", Now: time.Now}
	require.EqualError(t, Run(t.Context(), cfg), `unknown application "ioo": want one of constant, exponential, io`)
	cfg.App = "io"
	require.ErrorContains(t, Run(t.Context(), cfg), "use --app together with --print")
	cfg.App, cfg.Runs = "", 0
	require.ErrorContains(t, Run(t.Context(), cfg), "0 runs of 1 seconds")
}

func TestValueIn(t *testing.T) {
	const text = "processor\t: 0\nmodel name\t: AMD EPYC\nmodel name\t: other\n"
	assert.Equal(t, "AMD EPYC", valueIn(strings.NewReader(text), "model name", ":"))
	assert.Equal(t, "?", valueIn(strings.NewReader(text), "model", ":"))
}
