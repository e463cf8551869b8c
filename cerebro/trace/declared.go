package trace

import (
	"cmp"
	"fmt"
	"maps"
	"math"

	"github.com/sigma-scheduler/sigma/binpack"
)

// sourceWithDeclared is the source with the items that shares of apps refer to, by group, where these
// are not the expected ones: its key declared.
func (t *Trace) sourceWithDeclared() map[string]any {
	in, declared := t.Instance, map[string]any{}
	for _, a := range in.Apps {
		if a.Declared != 0 {
			declared[in.Groups[a.Group].Name] = 0.
		}
	}
	source := maps.Clone(t.Source)
	delete(source, declaredKey)
	if len(declared) == 0 {
		return source
	}
	for _, a := range in.Apps {
		n := a.Declared
		n = cmp.Or(n, a.Expected)
		if sum, ok := declared[in.Groups[a.Group].Name].(float64); ok {
			declared[in.Groups[a.Group].Name] = sum + max(0, n)
		}
	}
	if source == nil {
		source = map[string]any{}
	}
	source[declaredKey] = declared
	return source
}

const declaredKey = "declared"

// setDeclared reads the source's declared: the first app of a group has its number.
func (b *builder) setDeclared() error {
	value, ok := b.trace.Source[declaredKey]
	if !ok {
		return nil
	}
	declared, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: source.%s: want groups, each with a number", manifestFile, declaredKey)
	}
	for name, value := range declared {
		group, ok := b.groups[name]
		if !ok {
			return fmt.Errorf("%s: source.%s: unknown group %q", manifestFile, declaredKey, name)
		}
		n, ok := number(value)
		if !ok {
			return fmt.Errorf("%s: source.%s.%s %v: want a number, 0 or more", manifestFile, declaredKey, name, value)
		}
		setDeclared(b.instance.Apps, group, n)
	}
	return nil
}

func setDeclared(apps []binpack.App, group int32, n float64) {
	for i := range apps {
		if apps[i].Group != group {
			continue
		}
		apps[i].Declared = -1
		if n > 0 {
			apps[i].Declared, n = n, 0
		}
	}
}

func number(value any) (float64, bool) {
	var n float64
	switch v := value.(type) {
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case float64:
		n = v
	default:
		return 0, false
	}
	return n, n >= 0 && !math.IsInf(n, 0)
}
