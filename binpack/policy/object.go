package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/durable"
)

// FeatureVersion is the version of the feature table. It is raised when a
// feature's formula or normaliser changes.
const FeatureVersion = 1

// The identity of a policy object.
const (
	APIVersion = "sigma-scheduler.io/v1alpha1"
	ObjectKind = "PlacementPolicy"
)

// An Object is a policy as a Kubernetes object: training writes the form that
// kubectl applies. A status, which a cluster adds, is read and saved but changes
// nothing.
type Object struct {
	APIVersion string         `yaml:"apiVersion" json:"apiVersion"`
	Kind       string         `yaml:"kind" json:"kind"`
	Metadata   Metadata       `yaml:"metadata" json:"metadata"`
	Spec       Spec           `yaml:"spec" json:"spec"`
	Status     map[string]any `yaml:"status,omitempty" json:"status,omitempty"`
}

// Metadata is the part of an object's metadata that a policy file may carry.
type Metadata struct {
	Name        string            `yaml:"name" json:"name"`
	Labels      map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty" json:"annotations,omitempty"`
}

// Spec is the policy: a model, its inputs, and its numbers.
type Spec struct {
	FeatureVersion int                `yaml:"featureVersion" json:"featureVersion"`
	Model          string             `yaml:"model" json:"model"`
	Knowledge      string             `yaml:"knowledge" json:"knowledge"`
	Features       []string           `yaml:"features,flow" json:"features"`
	Weights        []float64          `yaml:"weights,flow" json:"weights"`
	Parameters     map[string]float64 `yaml:"parameters,flow,omitempty" json:"parameters,omitempty"`
	Rule           *rule.Settings     `yaml:"rule,omitempty" json:"rule,omitempty"` // of the model rule alone
	Mode           Mode               `yaml:"mode,omitempty" json:"mode,omitempty"`
	CanaryPercent  *int               `yaml:"canaryPercent,omitempty" json:"canaryPercent,omitempty"`
	Repair         *Repair            `yaml:"repair,omitempty" json:"repair,omitempty"`
	Soft           *Soft              `yaml:"soft,omitempty" json:"soft,omitempty"`
	MaxShareOfApp  *float64           `yaml:"maxShareOfApp,omitempty" json:"maxShareOfApp,omitempty"`
	Provenance     map[string]any     `yaml:"provenance,omitempty" json:"provenance,omitempty"`
}

// Mode is the extent to which a policy decides; "" is [DefaultMode].
type Mode string

// The modes.
const (
	Shadow Mode = "shadow" // it is computed and compared, and decides nothing
	Canary Mode = "canary" // it decides for a share of the workloads
	Live   Mode = "live"   // it decides

	DefaultMode = Shadow
)

// Policy builds the policy that the object describes.
func (o *Object) Policy() (binpack.Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p, err := o.Spec.build()
	if care := o.Spec.Care(); err == nil && care != (binpack.Care{}) {
		return careful{p, care}, nil
	}
	return p, err
}

func (s *Spec) build() (binpack.Policy, error) {
	if s.Model == RuleModel {
		return s.buildRule()
	}
	return ModelOf(s.Model).Build(s.learned())
}

// Validate reports the first fault of the object.
func (o *Object) Validate() error {
	s := &o.Spec
	switch {
	case o.APIVersion != APIVersion:
		return fmt.Errorf("apiVersion %q: want %q", o.APIVersion, APIVersion)
	case o.Kind != ObjectKind:
		return fmt.Errorf("kind %q: want %q", o.Kind, ObjectKind)
	case o.Metadata.Name == "":
		return errors.New("metadata.name is empty")
	case s.FeatureVersion != FeatureVersion:
		return fmt.Errorf("spec.featureVersion %d: this build knows %d", s.FeatureVersion, FeatureVersion)
	case s.Model != RuleModel && ModelOf(s.Model) == nil:
		return s.unknownModel()
	case s.Model != RuleModel && s.Rule != nil:
		return fmt.Errorf("%s: the model %s has none; the model rule has", ruleField, s.Model)
	case !slices.Contains([]Mode{"", Shadow, Canary, Live}, s.Mode):
		return fmt.Errorf("spec.mode %q: want shadow, canary or live", s.Mode)
	case s.CanaryPercent != nil && (*s.CanaryPercent < 0 || *s.CanaryPercent > 100):
		return fmt.Errorf("spec.canaryPercent %d: want 0 to 100", *s.CanaryPercent)
	}
	if err := cmp.Or(s.Repair.validate(), s.validateCare()); err != nil {
		return err
	}
	if _, ok := binpack.ParseKnowledge(s.Knowledge); !ok {
		return fmt.Errorf("spec.knowledge %q: known are %s", s.Knowledge, strings.Join(binpack.KnowledgeNames(), ", "))
	}
	if s.Model == RuleModel {
		_, err := s.buildRule()
		return err
	}
	return ModelOf(s.Model).Check(s.learned())
}

// learned returns the part of the spec that a model reads.
func (s *Spec) learned() learned.Spec {
	know, _ := binpack.ParseKnowledge(s.Knowledge) // Validate has refused others
	return learned.Spec{Knowledge: know, Features: s.Features, Weights: s.Weights, Parameters: s.Parameters}
}

func (s *Spec) unknownModel() error {
	if slices.Contains(Laboratory, s.Model) {
		return fmt.Errorf("spec.model %q: a model of the laboratory; use sigma-lab", s.Model)
	}
	return fmt.Errorf("spec.model %q: known are %s, %s", s.Model, strings.Join(ModelNames(), ", "), RuleModel)
}

// Suits reports why the policy cannot serve an instance; nil = it can.
func (s *Spec) Suits(inst *binpack.Instance) error {
	if s.Model == RuleModel {
		return s.Rule.Suits("rule", inst)
	}
	m := ModelOf(s.Model)
	if m == nil {
		return s.unknownModel()
	}
	return m.Suits(s.Features, inst)
}

// Digest identifies the policy's decisions: sha256 over model, knowledge, features,
// weights, parameters and rule, not over name, provenance or settings of use (mode,
// repair, soft, maxShareOfApp); of a model that has contents also over these.
func (o *Object) Digest() string {
	core := Spec{
		FeatureVersion: o.Spec.FeatureVersion, Model: o.Spec.Model, Knowledge: o.Spec.Knowledge,
		Features: o.Spec.Features, Weights: o.Spec.Weights, Parameters: o.Spec.Parameters,
		Rule: o.Spec.Rule,
	}
	core.unsignZeros()
	text, err := yaml.Marshal(core)
	if err != nil {
		panic(fmt.Sprintf("policy: marshal spec: %v", err)) // plain strings and numbers
	}
	if m := ModelOf(core.Model); m != nil && m.Contents != nil {
		text = append(text, m.Contents()...)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Parse reads a policy object; name is used in errors.
func Parse(name string, text []byte) (*Object, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var o Object
	if err := dec.Decode(&o); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one document", name)
	}
	if err := cmp.Or(wholeNumbers(text), o.Validate()); err != nil {
		return nil, fmt.Errorf("%s%s: %w", name, lineOf(text, err), err)
	}
	if _, err := o.Policy(); err != nil {
		return nil, fmt.Errorf("%s%s: %w", name, lineOf(text, err), err)
	}
	return &o, nil
}

// wholeNumbers refuses fractions, which the decoder cuts off.
func wholeNumbers(text []byte) error {
	for _, field := range []string{"spec.featureVersion", "spec.canaryPercent", "spec.repair", ruleField} {
		at, found := nodeOf(text, field)
		if !found {
			continue
		}
		if at := fraction(at); at != nil {
			return fmt.Errorf("%s %s: want a whole number", field, at.Value)
		}
	}
	return nil
}

// lineOf returns the line of the field that an error begins with, as ":7".
func lineOf(text []byte, err error) string {
	field, _, _ := strings.Cut(err.Error(), " ")
	at, _ := nodeOf(text, strings.TrimSuffix(field, ":"))
	if at == nil {
		return ""
	}
	return fmt.Sprintf(":%d", at.Line)
}

// nodeOf finds a field of the form spec.weights[1]. found is false if at is only the
// last node on the way to it.
func nodeOf(text []byte, field string) (at *yaml.Node, found bool) {
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil || len(root.Content) == 0 {
		return nil, false
	}
	at = root.Content[0]
	for part := range strings.SplitSeq(field, ".") {
		key, index, _ := strings.Cut(part, "[")
		next := (*yaml.Node)(nil)
		for i := 0; i+1 < len(at.Content); i += 2 {
			if at.Content[i].Value == key {
				next = at.Content[i+1]
			}
		}
		if next == nil {
			return at, false
		}
		at = next
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err == nil && at.Kind == yaml.SequenceNode && i < len(at.Content) {
			at = at.Content[i]
		}
	}
	return at, true
}

// Load reads a policy file.
func Load(path string) (*Object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// unsignZeros makes -0 a 0 in copies of the numbers: YAML reads "-0" as an
// integer, which has no sign.
func (s *Spec) unsignZeros() {
	s.Weights = slices.Clone(s.Weights)
	for i := range s.Weights {
		s.Weights[i] += 0
	}
	s.Parameters = maps.Clone(s.Parameters)
	for name := range s.Parameters {
		s.Parameters[name] += 0
	}
}

// Bytes returns the object as YAML.
func (o *Object) Bytes() []byte {
	canonical := *o
	canonical.Spec.unsignZeros()
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(&canonical); err != nil {
		panic(fmt.Sprintf("policy: marshal object: %v", err))
	}
	return buf.Bytes()
}

// Save replaces the file at path by the object; it is never half written.
func (o *Object) Save(path string) error {
	return durable.WriteBytes(path, o.Bytes())
}
