package sheet

import (
	"encoding/json"
	"math"
)

// DataVersion is the version of [Data].
const DataVersion = 1

// DataOpen and DataClose enclose the JSON of [Data] in a page. The JSON has no <.
const (
	DataOpen  = `<script type="application/json" id="sigma-data">`
	DataClose = `</script>`
)

// Data is the content of a page of comparisons, for programs: `sigma report diff` reads it from
// two pages. A page holds it as JSON, by {{template "data" .Data}}.
type Data struct {
	Kind    string     `json:"kind"`    // the command that wrote the page, such as "sigma compare"
	Version int        `json:"version"` // DataVersion
	Verdict string     `json:"verdict"` // the first sentence of the page
	Parts   []DataPart `json:"parts"`
}

// A DataPart is the comparison on one trace.
type DataPart struct {
	Name string `json:"name"`
	// Inputs are digests and settings by name. Runs of two pages with equal inputs are paired.
	Inputs map[string]string `json:"inputs"`
	Rows   []DataRow         `json:"rows"`
}

// A DataRow is one of those that were compared; Digest is that of its file, if it has one.
type DataRow struct {
	Name    string       `json:"name"`
	Digest  string       `json:"digest,omitempty"`
	Figures []DataFigure `json:"figures"`
}

// A DataFigure has a value of each run.
type DataFigure struct {
	Name string   `json:"name"` // with its unit
	Runs []Number `json:"runs"`
}

// Number is a float whose JSON form is null where it is NaN or infinite.
type Number float64

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}
