// Package schema has JSON schemas of Sigma's own files.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// files are the schemas by name.
var files = map[string]func() (*jsonschema.Schema, error){
	"trace":   func() (*jsonschema.Schema, error) { return trace(), nil },
	"log":     log,
	"journal": journalLine,
}

// Names lists the schemas.
func Names() []string { return slices.Sorted(maps.Keys(files)) }

// Of is the schema of that name, in JSON. The name is one of [Names].
func Of(name string) ([]byte, error) {
	s, err := files[name]()
	if err != nil {
		return nil, err
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// trace is of a trace's trace.yaml: docs/trace-format.md.
func trace() *jsonschema.Schema {
	text := func(description string) *jsonschema.Schema {
		return &jsonschema.Schema{Types: []string{"string", "number"}, Description: description}
	}
	names := func(least int, description string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "array", Description: description, MinItems: &least, MaxItems: new(200), UniqueItems: true, Items: &jsonschema.Schema{Type: "string", MinLength: new(1)}}
	}
	return &jsonschema.Schema{
		Title: "trace.yaml of a Sigma trace", Type: "object", Required: []string{"dimensions", "fleet"}, AdditionalProperties: never(),
		Properties: map[string]*jsonschema.Schema{
			"name":          text("for people; reports show it"),
			"description":   text("for people"),
			"dimensions":    names(1, "the resources in their order; each is a column of machines.csv and apps.csv"),
			"devices":       names(0, "the dimensions that are counted in whole devices"),
			"fleet":         {Enum: []any{"fixed", "open"}, Description: "fixed: the machines are those listed; open: machines are started when needed"},
			"measureFrom":   {Type: "number", Description: "seconds; integrals over time start here instead of at the first event"},
			"maxShareOfApp": {Type: "number", ExclusiveMinimum: new(0.), Maximum: new(1.), Description: "no machine holds more of an app while another takes the item"},
			"source":        {Type: "object", Description: "where the trace comes from"},
		},
		PropertyOrder: []string{"name", "description", "dimensions", "devices", "fleet", "measureFrom", "maxShareOfApp", "source"},
	}
}

func never() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

// log is of a line of a decision log or of a recording: docs/decision-log.md.
func log() (*jsonschema.Schema, error) {
	// A policy is a file of its own, which the CRD describes.
	object := &jsonschema.Schema{Type: "object", Required: []string{"apiVersion", "kind", "metadata", "spec"}, Description: "a PlacementPolicy"}
	s, err := jsonschema.For[ledger.Event](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[policy.Object](): object}})
	if err != nil {
		return nil, err
	}
	s.Title = fmt.Sprintf("line of a Sigma decision log, format %d", ledger.Version)
	s.Required = []string{"seq", "time", "kind"}
	kinds := map[ledger.Kind][]string{
		ledger.KindStart: {"start"}, ledger.KindNode: {"node", "machine"}, ledger.KindSelector: {"select"}, ledger.KindApp: {"app", "spec"}, ledger.KindForget: nil, ledger.KindRule: nil,
		ledger.KindForecast: {"expected"}, ledger.KindWindow: {"windows"}, ledger.KindPolicy: {"role"}, ledger.KindChoose: {"role", "chosen"},
		ledger.KindArrive: {"pod", "uid", "app"}, ledger.KindPlace: {"pod", "uid", "app", "node"}, ledger.KindDecide: {"pod", "uid", "app", "node", "cause"},
		ledger.KindFailed: {"uid"}, ledger.KindRemove: {"uid"}, ledger.KindReserve: {"node", "app", "reserved"}, ledger.KindRelease: {"node", "app", "reserved"}, ledger.KindPast: {"past"},
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		s.Properties["kind"].Enum = append(s.Properties["kind"].Enum, string(kind))
		if len(kinds[kind]) > 0 {
			is := any(string(kind))
			s.AllOf = append(s.AllOf, &jsonschema.Schema{
				If:   &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"kind": {Const: &is}}},
				Then: &jsonschema.Schema{Required: kinds[kind]},
			})
		}
	}
	return s, nil
}

// journalLine is of a line of an autoscaler's journal: docs/mpa-journal.md.
func journalLine() (*jsonschema.Schema, error) {
	// A recommendation may hold another one, that of a candidate or of the rules.
	recommendation, learning := reflect.TypeFor[mpa.Recommendation](), reflect.TypeFor[mpa.Learning]()
	metric, err := jsonschema.For[mpa.Metric](nil)
	if err != nil {
		return nil, err
	}
	metric.Properties["value"] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "number"}, {Enum: []any{"NaN", "+Inf", "-Inf"}}}}
	refs := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[mpa.Metric]():      metric,
		reflect.TypeFor[json.RawMessage](): {Description: "the agent's own"},
		recommendation:                     {Types: []string{"object"}, Ref: "#/$defs/recommendation"},
		learning:                           {Types: []string{"object"}, Ref: "#/$defs/learning"},
	}
	of := func(t reflect.Type) (*jsonschema.Schema, error) {
		others := maps.Clone(refs)
		delete(others, t)
		return jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: others})
	}
	a, errA := of(recommendation)
	b, errB := of(learning)
	s, err := of(reflect.TypeFor[journal.Record]())
	if err := errors.Join(errA, errB, err); err != nil {
		return nil, err
	}
	s.Defs = map[string]*jsonschema.Schema{"recommendation": a, "learning": b}
	s.Title = fmt.Sprintf("line of a Sigma autoscaler's journal, format %d", journal.Format)
	s.Required = []string{"kind"}
	for _, kind := range []string{journal.KindStart, journal.KindDecision, journal.KindOutcome} {
		is := any(kind)
		s.Properties["kind"].Enum = append(s.Properties["kind"].Enum, kind)
		s.AllOf = append(s.AllOf, &jsonschema.Schema{
			If:   &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"kind": {Const: &is}}},
			Then: &jsonschema.Schema{Required: []string{kind}},
		})
	}
	return s, nil
}
