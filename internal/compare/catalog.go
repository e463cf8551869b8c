package compare

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// A Catalog finds policies by the names that --policy takes.
type Catalog struct {
	// Shipped holds the files that the names learned and hand choose from.
	Shipped fs.FS
	// Knowledge is that of learned and hand; nil = K1 for learned, and for hand K1 if the trace has a forecast for an app,
	// else K0. learned is the model shipped at K0 and K1; other levels, and hand, have files.
	Knowledge *binpack.Knowledge
	// Options of the built-in policies.
	Options rule.Options
}

// families maps the names that choose from shipped files to the prefix of the files'
// names.
var families = []struct{ name, file string }{{"learned", "general"}, {"hand", "hand"}}

// An UnknownError is returned for a name that no policy has.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown policy %q; there are %s, or a policy file (a path with a / or ending in .yaml)",
		e.Name, strings.Join(Names(), ", "))
}

// Names lists the policies that need no file.
func Names() []string {
	names := rule.Names()
	for _, f := range families {
		names = append(names, f.name)
	}
	return append(names, Current)
}

// Found is a policy ready to be replayed on a trace.
type Found struct {
	Policy binpack.Policy
	Name   string // as given
	// Object is the policy file; nil for a built-in.
	Object *policy.Object
	// File is the shipped file that was chosen; empty for others.
	File string
}

// chooses reports whether the policy chooses among shipped files by itself.
func (f *Found) chooses() bool {
	return f.Object != nil && f.Object.Spec.Model == policy.ShippedModel
}

// IsFile reports whether a name is that of a policy file.
func IsFile(name string) bool {
	return strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml")
}

// Check checks names without a trace. The error is an [UnknownError], or the fault of a
// policy file.
func (c *Catalog) Check(names []string) error {
	for _, name := range names {
		if slices.ContainsFunc(families, func(f struct{ name, file string }) bool { return f.name == name }) {
			continue
		}
		if _, err := c.Find(name, nil); err != nil {
			return err
		}
	}
	return nil
}

// Find finds the policy of a name for a trace. current reads placed.csv, so it needs the
// trace before a repack.
func (c *Catalog) Find(name string, t *trace.Trace) (Found, error) {
	if name == "learned" {
		if know, ok := c.chooses(t); ok {
			return found(name, "", policy.ShippedAt(know), t)
		}
	}
	for _, f := range families {
		if f.name == name {
			return c.shipped(name, f.file, t)
		}
	}
	if name == Current {
		if t == nil {
			return Found{Name: name}, nil
		}
		p, err := newCurrent(t)
		if err != nil {
			return Found{}, fmt.Errorf("policy %s for trace %q: %w", name, t.Name, err)
		}
		return Found{Policy: p, Name: name}, nil
	}
	if IsFile(name) {
		object, err := c.load(name)
		if err != nil {
			return Found{}, err
		}
		return found(name, "", object, t)
	}
	p, err := rule.ByName(name, c.Options)
	if err != nil {
		return Found{}, &UnknownError{name}
	}
	return Found{Policy: p, Name: name}, nil
}

// chooses is the knowledge at which learned is the model shipped; ok is false where it is a file. A clock is of use
// until items leave.
func (c *Catalog) chooses(t *trace.Trace) (know binpack.Knowledge, ok bool) {
	switch {
	case c.Knowledge == nil:
		return binpack.K1, true
	case !c.Knowledge.Clock():
		return *c.Knowledge, *c.Knowledge != binpack.K2
	case !slices.ContainsFunc(t.Events, func(e trace.Event) bool { return e.Kind == trace.Delete }):
		return 0, false
	case c.Knowledge.Forecast():
		return binpack.K1, true
	}
	return binpack.K0, true
}

// load reads a policy file, or a shipped one where there is no file of a bare name.
func (c *Catalog) load(name string) (*policy.Object, error) {
	object, err := policy.Load(name)
	if !errors.Is(err, fs.ErrNotExist) || c.Shipped == nil || strings.Contains(name, "/") {
		return object, err
	}
	text, missing := fs.ReadFile(c.Shipped, name)
	if missing != nil {
		return nil, err
	}
	return policy.Parse(name, text)
}

// found returns a policy file for a trace. A trace, if there is one, must suit the file.
func found(name, file string, object *policy.Object, t *trace.Trace) (Found, error) {
	if t != nil {
		if err := object.Spec.Suits(t.Instance); err != nil {
			return Found{}, fmt.Errorf("policy %s for trace %q: %w", cmp.Or(file, name), t.Name, err)
		}
	}
	p, err := object.Policy()
	return Found{Policy: p, Name: name, Object: object, File: file}, err
}

// shipped chooses among the shipped files of a family.
func (c *Catalog) shipped(name, family string, t *trace.Trace) (Found, error) {
	know := binpack.K0
	switch {
	case c.Knowledge != nil:
		know = *c.Knowledge
	case expects(t.Instance):
		know = binpack.K1
	}
	for _, file := range variants(family, know, t.Instance) {
		text, err := fs.ReadFile(c.Shipped, file)
		if err != nil {
			continue // the next variant, or the list of existing files
		}
		object, err := policy.Parse(file, text)
		if err != nil {
			return Found{}, err
		}
		if know == binpack.K0Clock && object.Spec.Knowledge == binpack.K1Clock.String() {
			object.Spec.Knowledge = know.String()
		}
		return found(name, file, object, t)
	}
	files, err := fs.Glob(c.Shipped, family+"-*.yaml")
	if err != nil {
		return Found{}, err
	}
	if len(files) == 0 {
		return Found{}, fmt.Errorf("policy %s: this build ships none", name)
	}
	return Found{}, fmt.Errorf("policy %s: none is shipped for knowledge %s; there are %s", name, know, strings.Join(files, ", "))
}

// variants lists the files that suit an instance, best first: at the requested level, then, since a policy may use
// less than it is allowed to, at lower ones; at each for devices or for one dimension without constraints, else for all.
func variants(family string, know binpack.Knowledge, in *binpack.Instance) (files []string) {
	trait := ""
	switch {
	case slices.ContainsFunc(in.Dimensions, func(d binpack.Dimension) bool { return d.Device }):
		trait = "-devices"
	case in.Fleet == binpack.Open && len(in.Dimensions) == 1 && len(in.Rules) == 0 &&
		!slices.ContainsFunc(in.Groups, func(g binpack.Group) bool { return g.Limit > 0 }):
		trait = "-plain-1d"
	}
	levels := []binpack.Knowledge{know}
	switch know {
	case binpack.K2:
		levels = append(levels, binpack.K1, binpack.K0)
	case binpack.K1Clock:
		levels = append(levels, binpack.K0Clock, binpack.K1, binpack.K0)
	case binpack.K0Clock: // the file of K1+clock without its forecast
		levels = append(levels, binpack.K1Clock, binpack.K0)
	default:
		levels = append(levels, binpack.K0)
	}
	for _, suffix := range []string{trait, ""} {
		for _, k := range levels {
			files = append(files, family+"-"+strings.ReplaceAll(strings.ToLower(k.String()), "+", "-")+suffix+".yaml")
		}
	}
	return files
}

// expects reports whether there is a forecast for an app.
func expects(in *binpack.Instance) bool {
	return slices.ContainsFunc(in.Apps, func(a binpack.App) bool { return a.Expected >= 0 })
}

// Knowledge is the default level for traces: K1 where each gives a forecast,
// else K0.
func Knowledge(traces []*trace.Trace) binpack.Knowledge {
	for _, t := range traces {
		if !expects(t.Instance) {
			return binpack.K0
		}
	}
	return binpack.K1
}
