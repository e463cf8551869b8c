package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize"
	"go.yaml.in/yaml/v3"

	"github.com/sigma-scheduler/sigma/binpack"
)

// A manifest is the contents of trace.yaml.
type manifest struct {
	name, description   string
	dimensions, devices []string
	fleet               binpack.Fleet
	measureFrom         float64
	maxShareOfApp       float64 // 0 = not given
	source              map[string]any
}

// yamlLine finds the line in the text of an error of the YAML reader, which has no type for it.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// maxManifest is the most bytes of trace.yaml; parsed they take a hundred times as many.
const maxManifest = 4 << 20

var errLongManifest = errors.New("longer than " + humanize.IBytes(maxManifest))

// readManifest walks the parsed nodes itself: they have their lines, and neither
// aliases nor types outside JSON reach the trace.
func readManifest(r io.Reader) (manifest, error) {
	m := manifest{measureFrom: math.NaN()}
	decoder := yaml.NewDecoder(&bounded{r, maxManifest, errLongManifest})
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return m, fmt.Errorf("%s:1: empty", manifestFile)
	} else if err != nil {
		if line := yamlLine.FindStringSubmatch(err.Error()); line != nil {
			return m, fmt.Errorf("%s:%s: %s", manifestFile, line[1], strings.TrimPrefix(err.Error(), line[0]))
		}
		return m, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return m, fmt.Errorf("%s: more than one document", manifestFile)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return m, fmt.Errorf("%s:1: want a mapping of name, dimensions, …", manifestFile)
	}
	top := document.Content[0]
	seen := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		err := m.set(key.Value, value)
		if seen[key.Value] {
			err = errors.New("given twice")
		}
		seen[key.Value] = true
		if err != nil {
			return m, fmt.Errorf("%s:%d: %s: %w", manifestFile, key.Line, key.Value, err)
		}
	}
	for _, key := range []string{"dimensions", "fleet"} {
		if !seen[key] {
			return m, fmt.Errorf("%s:1: missing key %q", manifestFile, key)
		}
	}
	for _, name := range m.devices {
		if !slices.Contains(m.dimensions, name) {
			return m, fmt.Errorf("%s: devices: %q is not among the dimensions", manifestFile, name)
		}
	}
	return m, nil
}

// set reads one key.
func (m *manifest) set(key string, value *yaml.Node) (err error) {
	switch key {
	case "name":
		m.name, err = scalar(value)
		if err == nil && m.name != "" {
			err = checkName(m.name)
		}
	case "description":
		m.description, err = scalar(value)
	case "dimensions":
		if m.dimensions, err = names(value); err == nil {
			err = CheckDimensions(m.dimensions)
		}
	case "devices":
		m.devices, err = names(value)
	case "fleet":
		var fleet string
		fleet, err = scalar(value)
		switch fleet {
		case "open":
			m.fleet = binpack.Open
		case "fixed":
			m.fleet = binpack.Fixed
		default:
			err = fmt.Errorf("%q: want open or fixed", fleet)
		}
	case "measureFrom":
		var s string
		if s, err = scalar(value); err == nil && s != "" {
			if m.measureFrom, err = parseFloat(s); err != nil {
				err = fmt.Errorf("%q: %w", s, err)
			}
		}
	case "maxShareOfApp":
		var s string
		if s, err = scalar(value); err == nil && s != "" {
			if m.maxShareOfApp, err = parseFloat(s); err == nil && !(m.maxShareOfApp > 0 && m.maxShareOfApp <= 1) {
				err = errors.New("want a number above 0, up to 1")
			}
			if err != nil {
				err = fmt.Errorf("%q: %w", s, err)
			}
		}
	case "source":
		var source any
		if source, err = sourceValue(value); err == nil && source != nil {
			var ok bool
			if m.source, ok = source.(map[string]any); !ok {
				err = errors.New("want a mapping")
			}
		}
	default:
		err = errors.New("unknown key")
	}
	return err
}

// CheckDimensions refuses names that other parts of the format would misread.
func CheckDimensions(dimensions []string) error {
	switch {
	case len(dimensions) == 0:
		return errors.New("want at least one")
	case len(dimensions) > binpack.MaxDimensions:
		return fmt.Errorf("%d, want at most %d", len(dimensions), binpack.MaxDimensions)
	}
	for _, name := range dimensions {
		if err := checkName(name); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		if strings.ContainsAny(name, ":|,\"'[]") || strings.ContainsFunc(name, unicode.IsSpace) {
			return fmt.Errorf("%q: space, quote, bracket, comma, colon or bar in a name", name)
		}
		if slices.Contains(machineColumns, name) || slices.Contains(appColumns, name) || slices.Contains(zoneLimitColumns, name) || name == zoneColumn || name == softColumn {
			return fmt.Errorf("%q: is the name of another column", name)
		}
	}
	return nil
}

// scalar is the text of a single value, whatever its YAML type; null is empty.
func scalar(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", errors.New("want a single value")
	}
	if n.ShortTag() == "!!null" {
		return "", nil
	}
	return n.Value, nil
}

// names is a list of different texts.
func names(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil, nil
	}
	if n.Kind != yaml.SequenceNode {
		return nil, errors.New("want a list")
	}
	var list []string
	seen := map[string]bool{}
	for _, item := range n.Content {
		name, err := scalar(item)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("%q is listed twice", name)
		}
		seen[name] = true
		list = append(list, name)
	}
	return list, nil
}

// sourceValue is a value of source as JSON could hold it. A date or any other
// type of YAML is kept as the text it was written as.
func sourceValue(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		values := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, err := scalar(n.Content[i])
			if err != nil {
				return nil, err
			}
			if _, ok := values[key]; ok {
				return nil, fmt.Errorf("%s: given twice", key)
			}
			if values[key], err = sourceValue(n.Content[i+1]); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		return values, nil
	case yaml.SequenceNode:
		values := make([]any, len(n.Content))
		for i, item := range n.Content {
			var err error
			if values[i], err = sourceValue(item); err != nil {
				return nil, err
			}
		}
		return values, nil
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null", "!!bool", "!!int", "!!float":
			var v any
			if err := n.Decode(&v); err != nil {
				return nil, err
			}
			if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
				return nil, fmt.Errorf("%q: not finite", n.Value)
			}
			return v, nil
		}
		return n.Value, nil
	default:
		return nil, errors.New("anchors and aliases are not supported")
	}
}

// encode is the canonical text: keys in the order of the format, those of
// source sorted, absent ones left out.
func (m *manifest) encode() ([]byte, error) {
	top := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, value *yaml.Node) {
		top.Content = append(top.Content, stringNode(key), value)
	}
	list := func(names []string) *yaml.Node {
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, name := range names {
			n.Content = append(n.Content, stringNode(name))
		}
		return n
	}
	add("name", stringNode(m.name))
	if m.description != "" {
		add("description", stringNode(m.description))
	}
	add("dimensions", list(m.dimensions))
	add("devices", list(m.devices))
	add("fleet", stringNode(m.fleet.String()))
	if !math.IsNaN(m.measureFrom) {
		add("measureFrom", &yaml.Node{Kind: yaml.ScalarNode, Value: string(appendFloat(nil, m.measureFrom))})
	}
	if m.maxShareOfApp != 0 {
		add("maxShareOfApp", &yaml.Node{Kind: yaml.ScalarNode, Value: string(appendFloat(nil, m.maxShareOfApp))})
	}
	if len(m.source) > 0 {
		source, err := sourceNode(reflect.ValueOf(m.source))
		if err != nil {
			return nil, fmt.Errorf("%s: source: %w", manifestFile, err)
		}
		add("source", source)
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(top); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	return text.Bytes(), nil
}

// plainText needs no quotes in YAML, unless it reads as a value of another
// type, which the encoder sees.
var plainText = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./+@()-]*( [A-Za-z0-9_./+@()-]+)*$`)

// oldBool is a truth value to readers of YAML 1.1.
var oldBool = regexp.MustCompile(`^(?i:y|n|yes|no|on|off)$`)

// stringNode quotes all but the plainest texts: the encoder's other styles do
// not bring back every text.
func stringNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if !plainText.MatchString(s) || oldBool.MatchString(s) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// sourceNode turns maps with text keys, lists, texts, numbers and truth values into YAML.
func sourceNode(v reflect.Value) (*yaml.Node, error) {
	plain := func(text string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: text}, nil
	}
	switch v.Kind() {
	case reflect.Invalid:
		return plain("null")
	case reflect.Interface, reflect.Pointer:
		return sourceNode(v.Elem())
	case reflect.String:
		return stringNode(v.String()), nil
	case reflect.Bool:
		return plain(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return plain(strconv.FormatInt(v.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return plain(strconv.FormatUint(v.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%v is not finite", f)
		}
		if f != 0 && (math.Abs(f) < 1e-6 || math.Abs(f) >= 1e15) {
			return plain(strconv.FormatFloat(f, 'e', -1, 64))
		}
		return plain(string(appendFloat(nil, f)))
	case reflect.Slice, reflect.Array:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for i := range v.Len() {
			item, err := sourceNode(v.Index(i))
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		return n, nil
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			return mapNode(v)
		}
	default: // not in JSON either
	}
	return nil, fmt.Errorf("a %s cannot be written", v.Type())
}

// mapNode is a map with text keys, sorted.
func mapNode(v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		item, err := sourceNode(v.MapIndex(key))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		n.Content = append(n.Content, stringNode(key.String()), item)
	}
	return n, nil
}
