package report

import (
	"encoding/json"
	"fmt"
	"io"
)

// JSON writes the comparisons as an array with one object a trace.
func JSON(w io.Writer, comparisons []Comparison) error {
	if comparisons == nil {
		comparisons = []Comparison{}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(comparisons); err != nil {
		return fmt.Errorf("write comparison: %w", err) // also a NaN that a measure let through
	}
	return nil
}
