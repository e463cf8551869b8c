package reportdiff

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
)

// kinds are the commands whose pages hold data.
var kinds = []string{"sigma compare", "sigma mpa simulate", "sigma flow simulate"}

// read returns the data inside a page. Its errors name the file and the missing or wrong part.
func read(path string) (*sheet.Data, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(string(text), sheet.DataOpen)
	if !found {
		return nil, fmt.Errorf("%s: no page of %s: it has no element %s; a page of an older Sigma has none either", path, strings.Join(kinds, " or "), sheet.DataOpen)
	}
	inside, _, found := strings.Cut(rest, sheet.DataClose)
	if !found {
		return nil, fmt.Errorf("%s: the page ends inside of its data", path)
	}
	d := &sheet.Data{}
	if err := json.Unmarshal([]byte(inside), d); err != nil {
		line := 1 + strings.Count(string(text[:len(text)-len(rest)]), "\n")
		if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
			line += strings.Count(inside[:bad.Offset], "\n")
		}
		return nil, fmt.Errorf("%s:%d: data of the page: %w", path, line, err)
	}
	switch {
	case d.Version != sheet.DataVersion:
		return nil, fmt.Errorf("%s: version: the page's data are of version %d, and this program reads version %d", path, d.Version, sheet.DataVersion)
	case !slices.Contains(kinds, d.Kind):
		return nil, fmt.Errorf("%s: kind: unknown %q; there are %s", path, d.Kind, strings.Join(kinds, ", "))
	}
	return d, check(path, d)
}

// check refuses values that no page of ours holds, by field.
func check(path string, d *sheet.Data) error {
	seen := map[string]bool{}
	for i, p := range d.Parts {
		at := fmt.Sprintf("%s: parts[%d]", path, i)
		if p.Inputs == nil || p.Rows == nil {
			return fmt.Errorf("%s %q: inputs or rows are missing", at, p.Name)
		}
		for k, r := range p.Rows {
			if r.Name == "" || r.Figures == nil {
				return fmt.Errorf("%s.rows[%d]: name or figures are missing", at, k)
			}
			for n, f := range r.Figures {
				if f.Name == "" || len(f.Runs) == 0 {
					return fmt.Errorf("%s.rows[%d].figures[%d]: name or runs are missing", at, k, n)
				}
			}
		}
		seen[p.Name] = true
	}
	if len(seen) < len(d.Parts) {
		return fmt.Errorf("%s: parts: two traces of one name cannot be told apart", path)
	}
	return nil
}
