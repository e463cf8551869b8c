// Package crdtest validates custom objects as the API server does, by the server's own
// packages and without a server. It serves the tests of any kind and depends on none of
// them.
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

// A CRD validates, prunes and defaults objects of one kind by its definition. The API
// server's treatment of objects of every kind is tested on a real server.
type CRD struct {
	// Definition is the parsed file.
	Definition apiextensionsv1.CustomResourceDefinition

	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

// Load reads a definition of one version from a file. The test fails if the API server
// would refuse the definition.
func Load(t *testing.T, file string) *CRD {
	t.Helper()
	d := &CRD{}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &d.Definition))
	crd := d.Definition.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	require.Len(t, crd.Spec.Versions, 1)
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name} // the server adds it
	var internal apiextensions.CustomResourceDefinition
	require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &internal, nil))
	// This also estimates the cost of the rules on the largest object.
	require.Empty(t, crdvalidation.ValidateCustomResourceDefinition(t.Context(), &internal))

	d.structural, err = schema.NewStructural(internal.Spec.Validation.OpenAPIV3Schema)
	require.NoError(t, err)
	d.openAPI, _, err = validation.NewSchemaValidator(internal.Spec.Validation.OpenAPIV3Schema)
	require.NoError(t, err)
	d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
	return d
}

// Create returns the object that the server would store. As for kubectl, an unknown
// field is an error.
func (d *CRD) Create(t *testing.T, text []byte) (map[string]any, error) {
	t.Helper()
	return d.admit(t, text, nil)
}

// Update is Create for an object that exists already.
func (d *CRD) Update(t *testing.T, text []byte, old map[string]any) (map[string]any, error) {
	t.Helper()
	return d.admit(t, text, old)
}

func (d *CRD) admit(t *testing.T, text []byte, old map[string]any) (map[string]any, error) {
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
	delete(object, "status") // written by its own subresource
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
