package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// Policy prints a policy's features, weights and provenance.
func Policy(out io.Writer, o *policy.Object) error {
	s := &o.Spec
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\n", o.Metadata.Name)
	fmt.Fprintf(w, "digest\t%s\n", o.Digest())
	fmt.Fprintf(w, "model\t%s (feature version %d)\n", s.Model, s.FeatureVersion)
	fmt.Fprintf(w, "knowledge\t%s\n", s.Knowledge)
	fmt.Fprintf(w, "mode\t%s\n", cmp.Or(s.Mode, policy.DefaultMode))
	if s.Repair != nil {
		fmt.Fprintf(w, "repair\t%s\n", s.Repair)
	}
	model := policy.ModelOf(s.Model)
	if s.Model == policy.ShippedModel {
		fmt.Fprintln(w, "\nfile that it may choose\tknowledge\tdigest")
		for _, f := range policy.ShippedFiles() {
			if know := f.Object.Spec.Knowledge; know != s.Knowledge && s.Knowledge == binpack.K0.String() {
				continue // of a row with a forecast
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, f.Object.Spec.Knowledge, f.Object.Digest())
		}
		return w.Flush()
	}
	if s.Rule != nil {
		fmt.Fprintf(w, "rule\t%s\n", s.Rule)
	} else {
		fmt.Fprintln(w, "\nfeature\tweight\trange\twhat it is")
	}
	for i, name := range s.Features {
		at, _ := model.Feature(name)
		f := model.Features[at]
		fmt.Fprintf(w, "%s\t%+.4g\t%s\t%s\n", name, s.Weights[i], f.Range, f.Meaning)
	}
	if len(s.Parameters) > 0 {
		fmt.Fprintln(w, "\nparameter\tvalue\trange\twhat it is")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		p, _ := model.Parameter(name)
		fmt.Fprintf(w, "%s\t%.4g\t%g … %g\t%s\n", name, s.Parameters[name], p.Low, p.High, p.Meaning)
	}
	if err := w.Flush(); err != nil || len(s.Provenance) == 0 {
		return err
	}
	text, err := yaml.Marshal(map[string]any{"provenance": s.Provenance})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%s", text)
	return err
}

// PolicyDifferences prints the differences between two policies.
func PolicyDifferences(out io.Writer, old, changed *policy.Object) error {
	lines := differences(fieldsOf(old), fieldsOf(changed))
	if len(lines) == 0 {
		_, err := fmt.Fprintln(out, "no difference")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
	return w.Flush()
}

// A field of a policy: a path and a value, in the order of the file.
type field struct{ name, value string }

// fieldsOf lists the fields of a policy with its provenance. Features are matched by
// name, not by place.
func fieldsOf(o *policy.Object) []field {
	s := &o.Spec
	fields := []field{
		{"name", o.Metadata.Name},
		{"featureVersion", fmt.Sprint(s.FeatureVersion)},
		{"model", s.Model},
		{"knowledge", s.Knowledge},
		{"mode", string(cmp.Or(s.Mode, policy.DefaultMode))},
	}
	if s.Rule != nil {
		fields = append(fields, field{"rule", s.Rule.String()})
	}
	if s.CanaryPercent != nil {
		fields = append(fields, field{"canaryPercent", fmt.Sprint(*s.CanaryPercent)})
	}
	if s.Repair != nil {
		fields = append(fields, field{"repair", s.Repair.String()})
	}
	for i, name := range s.Features {
		fields = append(fields, field{"weight " + name, fmt.Sprint(s.Weights[i])})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		fields = append(fields, field{"parameter " + name, fmt.Sprint(s.Parameters[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Provenance)) {
		fields = append(fields, field{"provenance " + name, listed(s.Provenance[name])})
	}
	return fields
}

// short cuts a long value, such as a list of traces, so that it shows where it differs
// from the other one.
func short(value, other string) string {
	const most, lead = 60, 12
	text := []rune(cmp.Or(value, "-"))
	if len(text) <= most {
		return string(text)
	}
	from := 0 // not beyond the first difference
	for was := []rune(other); from < min(len(text), len(was)) && text[from] == was[from]; from++ {
	}
	from = max(0, min(from-lead, len(text)-most))
	cut := string(text[from:min(len(text), from+most)])
	if from > 0 {
		cut = "… " + cut
	}
	if from+most < len(text) {
		cut += " …"
	}
	return cut
}

// listed writes a value of the provenance on one line; traces with their names and
// digests.
func listed(v any) string {
	list, ok := v.([]any)
	if !ok {
		return fmt.Sprint(v)
	}
	var parts []string
	for _, e := range list {
		if m, ok := e.(map[string]any); ok && m["name"] != nil {
			parts = append(parts, fmt.Sprint(m["name"], " ", m["trace"]))
		} else {
			parts = append(parts, fmt.Sprint(e))
		}
	}
	return fmt.Sprintf("%d: %s", len(list), strings.Join(parts, ", "))
}

// differences lists the fields that differ or that one side lacks.
func differences(old, changed []field) []string {
	var lines []string
	show := func(name, before, after string) {
		lines = append(lines, fmt.Sprintf("%s\t%s\t→ %s", name, short(before, after), short(after, before)))
	}
	find := func(list []field, name string) string {
		for _, f := range list {
			if f.name == name {
				return f.value
			}
		}
		return ""
	}
	for _, f := range old {
		if after := find(changed, f.name); after != f.value {
			show(f.name, f.value, after)
		}
	}
	for _, f := range changed {
		if find(old, f.name) == "" && f.value != "" {
			show(f.name, "", f.value)
		}
	}
	return lines
}
