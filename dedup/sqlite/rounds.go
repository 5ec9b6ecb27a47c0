package sqlite

import (
	"context"
	"database/sql"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// roundsQuery reads an operation's rounds, oldest first. ?2 says whether with their
// questions.
const roundsQuery = `SELECT number, attempt, state, bare, downstream, answers, iif(?2, question, NULL)
	FROM rounds WHERE operation = ?1 ORDER BY number`

// rounds are those of the operation of this number; of number 0, which none has, there
// are none.
func rounds(ctx context.Context, stmt *sql.Stmt, operation int64, withQuestions bool) (all []dedup.Round, err error) {
	rows, err := stmt.QueryContext(ctx, operation, withQuestions)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r dedup.Round
		if err := rows.Scan(&r.Number, &r.Attempt, bytesInto(r.State[:]), &r.Bare, &r.Downstream, bytesInto(r.Answers[:]), &r.Question); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// writeRounds writes what a change makes of an operation's rounds.
func (s *session) writeRounds(number int64, was dedup.Entry, c dedup.Change) error {
	ctx := context.Background()
	if c.Entry.Row == 1 && c.Entry.Attempt > was.Attempt {
		if _, err := s.dropRounds.ExecContext(ctx, number); err != nil {
			return err
		}
	}
	if r := c.Round; r != nil {
		if err := s.writeRound(number, *r); err != nil {
			return err
		}
	}
	asked := was.State == dedup.AwaitingInput || c.Entry.Round > 0
	if asked && !c.Entry.KeepsQuestions() {
		_, err := s.dropQuestions.ExecContext(ctx, number)
		return err
	}
	return nil
}

// writeRound writes the answers to a round that is known, else the round.
func (s *session) writeRound(number int64, r dedup.Round) error {
	known, err := s.answerRound.ExecContext(context.Background(), r.Answers[:], number, r.Number)
	if err != nil {
		return err
	}
	if n, err := known.RowsAffected(); n > 0 || err != nil {
		return err
	}
	_, err = s.addRound.ExecContext(context.Background(), number, r.Number, r.Attempt, r.State[:], r.Bare, r.Downstream, r.Answers[:], bytesOrNull(r.Question))
	return err
}
