package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

func TestIs(t *testing.T) {
	web := v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	assert.True(t, web.Is("apps/v1", "Deployment", "web"))
	assert.True(t, web.Is("apps/v1beta1", "Deployment", "web"))
	assert.True(t, web.Is("", "Deployment", "web"))
	assert.False(t, web.Is("example.com/v1", "Deployment", "web"))
	assert.False(t, web.Is("apps/v1", "StatefulSet", "web"))
	assert.False(t, web.Is("apps/v1", "Deployment", "db"))
}
