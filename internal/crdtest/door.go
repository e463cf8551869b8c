// Package crdtest holds what tests of several kinds of custom objects share: what the
// API server does with new ones, by its own packages, without a server. It knows none
// of the kinds.
package crdtest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// A Door is what the API server does with objects of one kind, apart from what it does
// with all. For the rest there are tests on a real one.
type Door struct {
	// Definition as in its file.
	Definition apiextensionsv1.CustomResourceDefinition

	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

// Open reads a definition of one version from a file. What the API server would refuse
// it for, fails the test.
func Open(t *testing.T, file string) *Door {
	t.Helper()
	d := &Door{}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &d.Definition))
	crd := d.Definition.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	require.Len(t, crd.Spec.Versions, 1)
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name} // the server adds it
	var internal apiextensions.CustomResourceDefinition
	require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &internal, nil))
	// Also estimates what the rules may cost on the largest object.
	require.Empty(t, crdvalidation.ValidateCustomResourceDefinition(t.Context(), &internal))

	d.structural, err = schema.NewStructural(internal.Spec.Validation.OpenAPIV3Schema)
	require.NoError(t, err)
	d.openAPI, _, err = validation.NewSchemaValidator(internal.Spec.Validation.OpenAPIV3Schema)
	require.NoError(t, err)
	d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
	return d
}

// Create returns an object as the server would store it, asked as kubectl asks:
// an unknown field is an error.
func (d *Door) Create(t *testing.T, text []byte) (map[string]any, error) {
	t.Helper()
	return d.take(t, text, nil)
}

// Update is Create for an object that is there already.
func (d *Door) Update(t *testing.T, text []byte, old map[string]any) (map[string]any, error) {
	t.Helper()
	return d.take(t, text, old)
}

func (d *Door) take(t *testing.T, text []byte, old map[string]any) (map[string]any, error) {
	t.Helper()
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := utiljson.Unmarshal(asJSON, &object); err != nil {
		return nil, err
	}
	var wrong field.ErrorList
	track := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, name := range pruning.PruneWithOptions(object, d.structural, true, track) {
		wrong = append(wrong, field.Forbidden(field.NewPath(name), "unknown field"))
	}
	delete(object, "status") // it is written apart
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.structural)
	defaulting.Default(object, d.structural)
	wrong = append(wrong, validation.ValidateCustomResource(nil, object, d.openAPI)...)
	wrong = append(wrong, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if len(wrong) == 0 {
		var was any
		if old != nil {
			was = old
		}
		broken, _ := d.rules.Validate(t.Context(), nil, d.structural, object, was, celconfig.RuntimeCELCostBudget)
		wrong = append(wrong, broken...)
	}
	return object, wrong.ToAggregate()
}
