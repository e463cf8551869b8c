package learned

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The head of a policy file.
const (
	APIVersion = "autoscaling.sigma-scheduler.io/v1alpha1"
	Kind       = "ScalingPolicy"
	// Version of the numbers' meaning.
	Version = 1
)

// A Policy is a ScalingPolicy: the numbers of the agent, and their origin.
type Policy struct {
	Name       string
	Values     Values
	Provenance Provenance
	// Digest of the file.
	Digest string
}

// A Provenance records how numbers were found. The zero value means numbers set by hand.
type Provenance struct {
	Method      string `yaml:"method"`
	Evaluations int    `yaml:"evaluations"`
	Seed        uint64 `yaml:"seed"`
	// FirstScenario and Scenarios are the seeds of the generated scenarios of the train side
	// that were searched and validated on.
	FirstScenario uint64 `yaml:"firstScenario"`
	Scenarios     int    `yaml:"scenarios"`
	// Traces were read in addition to synthetic loads.
	Traces bool `yaml:"traces"`
	// Journaled pieces of the user's own workloads, of three hours, were searched on as well.
	Journaled int `yaml:"journaledPieces,omitempty"`
	// Journal is the sha256 of their journals, Replaces the digest of the policy that the search
	// began with; on Pieces kept from the search the costs of both, ÷ that of hpa+vpa.
	Journal      string  `yaml:"journal,omitempty"`
	Replaces     string  `yaml:"replacesDigest,omitempty"`
	Pieces       int     `yaml:"pieces,omitempty"`
	PiecesCost   float64 `yaml:"piecesCost,omitempty"`
	ReplacesCost float64 `yaml:"replacesCost,omitempty"`
	// Objective of the search; Cost and Kept (÷ those of hpa+vpa) of the validation split.
	Objective float64 `yaml:"objective"`
	Cost      float64 `yaml:"validationCost"`
	Kept      int     `yaml:"validationKept"`
	PairKept  int     `yaml:"validationKeptByPair"`
	Module    string  `yaml:"module,omitempty"`
}

// Seen reports whether a scenario of the train side was used in training.
func (p *Provenance) Seen(seed uint64) bool {
	return seed >= p.FirstScenario && seed-p.FirstScenario < uint64(p.Scenarios)
}

type policyFile struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		Version    int         `yaml:"version"`
		Numbers    yaml.Node   `yaml:"numbers"`
		Provenance *Provenance `yaml:"provenance,omitempty"`
	} `yaml:"spec"`
}

// Parse reads a policy. Errors begin with the name of its file, and name line and field.
func Parse(name string, data []byte) (*Policy, error) {
	p, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

func parse(data []byte) (*Policy, error) {
	var f policyFile
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	dec.KnownFields(true)
	var wrong *yaml.TypeError
	switch err := dec.Decode(&f); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty")
	case errors.As(err, &wrong):
		return nil, errors.New(strings.Join(wrong.Errors, "; "))
	case err != nil:
		return nil, err
	}
	switch {
	case f.APIVersion != APIVersion || f.Kind != Kind:
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %s, %s", f.APIVersion, f.Kind, APIVersion, Kind)
	case f.Metadata.Name == "":
		return nil, errors.New("metadata.name is empty")
	case f.Spec.Numbers.Kind != yaml.MappingNode:
		return nil, errors.New("spec.numbers: want a number for each name")
	}
	p := &Policy{Name: f.Metadata.Name, Digest: digest(data)}
	if f.Spec.Provenance != nil {
		p.Provenance = *f.Spec.Provenance
	}
	if err := p.head(f.Spec.Version); err != nil {
		return nil, err
	}
	return p, p.numbers(f.Spec.Numbers.Content)
}

// Read returns a policy of numbers by name, as a cluster has it, and its file. The digest is
// the file's. Errors name the field.
func Read(name string, version int, numbers map[string]float64, from Provenance) (*Policy, []byte, error) {
	p := &Policy{Name: name, Provenance: from}
	if err := p.head(version); err != nil {
		return nil, nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		at, err := indexOf(key)
		if err == nil {
			err = within(at, numbers[key])
		}
		if err != nil {
			return nil, nil, fmt.Errorf("spec.numbers.%s: %w", key, err)
		}
		p.Values[at] = numbers[key]
	}
	for _, n := range Numbers {
		if _, ok := numbers[n.Name]; !ok {
			return nil, nil, fmt.Errorf("spec.numbers.%s is missing", n.Name)
		}
	}
	data, err := p.Marshal()
	p.Digest = digest(data)
	return p, data, err
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// head checks the fields next to the numbers.
func (p *Policy) head(version int) error {
	switch {
	case version != Version:
		return fmt.Errorf("spec.version %d: this program knows %d", version, Version)
	case p.Provenance.Scenarios < 0 || p.Provenance.FirstScenario > FirstTestSeed || p.Provenance.FirstScenario+uint64(p.Provenance.Scenarios) > FirstTestSeed:
		return fmt.Errorf("spec.provenance: trained on scenarios from %d up, which are for tests", FirstTestSeed)
	}
	return nil
}

func indexOf(name string) (int, error) {
	at := slices.IndexFunc(Numbers[:], func(n Number) bool { return n.Name == name })
	if at < 0 {
		return 0, errors.New("there is no such number")
	}
	return at, nil
}

// within checks that a number is in its box.
func within(at int, v float64) error {
	if n := Numbers[at]; !(v >= n.Min && v <= n.Max) {
		return fmt.Errorf("%v is not within %v and %v", v, n.Min, n.Max)
	}
	return nil
}

// FirstTestSeed is the first seed of scenarios that judge agents.
const FirstTestSeed = 900_000

// numbers reads pairs of name and value.
func (p *Policy) numbers(pairs []*yaml.Node) error {
	var given [numbers]bool
	for i := 0; i+1 < len(pairs); i += 2 {
		key, value := pairs[i], pairs[i+1]
		field := "spec.numbers." + key.Value
		at, err := indexOf(key.Value)
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", key.Line, field, err)
		}
		if given[at] {
			return fmt.Errorf("line %d: %s is given twice", key.Line, field)
		}
		v, err := strconv.ParseFloat(value.Value, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("line %d: %s: %q is not a finite number", value.Line, field, value.Value)
		}
		if err := within(at, v); err != nil {
			return fmt.Errorf("line %d: %s: %w", value.Line, field, err)
		}
		given[at], p.Values[at] = true, v
	}
	for i, n := range Numbers {
		if !given[i] {
			return fmt.Errorf("spec.numbers.%s is missing", n.Name)
		}
	}
	return nil
}

// Marshal returns the policy as a file.
func (p *Policy) Marshal() ([]byte, error) {
	f := policyFile{APIVersion: APIVersion, Kind: Kind}
	f.Metadata.Name, f.Spec.Version = p.Name, Version
	f.Spec.Numbers.Kind = yaml.MappingNode
	for i, n := range Numbers {
		f.Spec.Numbers.Content = append(f.Spec.Numbers.Content,
			&yaml.Node{Kind: yaml.ScalarNode, Value: n.Name},
			&yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatFloat(p.Values[i], 'g', -1, 64)})
	}
	if p.Provenance != (Provenance{}) {
		f.Spec.Provenance = &p.Provenance
	}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(f); err != nil {
		return nil, err
	}
	return []byte(b.String()), enc.Close()
}
