package upstream_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcp-idem/mcp-idem/upstream"
)

func TestWhyAServerCannotBeReachedIsSaidOnce(t *testing.T) {
	t.Parallel()
	start := &upstream.StartError{Name: "shop", Reason: "cannot be reached: it accepts no connection; check the URL"}
	once := &upstream.UnreachableError{Name: "shop", Err: start}
	assert.Equal(t, start.Error(), once.Error())
	assert.Equal(t, start.Error(), (&upstream.UnreachableError{Name: "shop", Err: once}).Error())
	assert.Equal(t, `upstream "shop" cannot be reached: it is over`, (&upstream.UnreachableError{Name: "shop", Err: errors.New("it is over")}).Error())
	assert.Equal(t, `upstream "shop" cannot be reached: then: `+start.Error(), (&upstream.UnreachableError{Name: "shop", Err: fmt.Errorf("then: %w", start)}).Error())
}
