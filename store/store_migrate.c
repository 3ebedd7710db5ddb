/* The schema, as an ordered table of steps, and the one function that brings a database up to date.
 *
 * Invariant: PRAGMA user_version = the last step that was applied in full; a step and its version number commit
 * together. A step that has shipped is never edited: a change of the schema is a new step at the end.
 * docs/store.md explains the tables. Thread: st_open(), before the writer runs. */
#include "store/db.h"

static const char schema_1[] =
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "INSERT INTO meta VALUES ('model_seq', 0);"

    "CREATE TABLE model ("
    " id INTEGER PRIMARY KEY,"
    " role TEXT NOT NULL CHECK (role IN ('ac', 'kb')),"
    " owner TEXT NOT NULL," /* name of a hardware (ac) or family (kb) */
    " features_version TEXT NOT NULL,"
    " state TEXT NOT NULL,"
    " job INTEGER NOT NULL," /* 0 none; not a foreign key: a purged job leaves its family's models */
    " records INTEGER NOT NULL,"
    " tasks INTEGER NOT NULL,"
    " created INTEGER NOT NULL,"
    " sha256 TEXT NOT NULL,"
    " parents TEXT NOT NULL,"
    " metrics TEXT NOT NULL,"
    " calibration INTEGER NOT NULL) STRICT;"
    "CREATE INDEX model_owner ON model (owner);"

    "CREATE TABLE family ("
    " id INTEGER PRIMARY KEY,"
    " name TEXT NOT NULL UNIQUE,"
    " kb_model INTEGER REFERENCES model (id),"
    " created INTEGER NOT NULL) STRICT;"

    "CREATE TABLE hardware ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " name TEXT NOT NULL UNIQUE,"
    " family INTEGER NOT NULL REFERENCES family (id),"
    " kind TEXT NOT NULL CHECK (kind IN ('cpu', 'gpu', 'accelerator')),"
    " target TEXT NOT NULL,"
    " descriptor TEXT NOT NULL,"
    " active_model INTEGER REFERENCES model (id),"
    " created INTEGER NOT NULL) STRICT;"
    "CREATE INDEX hardware_family ON hardware (family);"

    "CREATE TABLE task ("
    " id INTEGER PRIMARY KEY,"
    " task_id TEXT NOT NULL UNIQUE,"
    " identity TEXT NOT NULL,"
    " workload_key TEXT NOT NULL,"
    " target_kind TEXT NOT NULL) STRICT;"

    "CREATE TABLE task_variant ("
    " id INTEGER PRIMARY KEY,"
    " digest BLOB NOT NULL UNIQUE," /* of the two texts below */
    " task INTEGER NOT NULL REFERENCES task (id),"
    " task_array TEXT NOT NULL,"
    " v TEXT) STRICT;"

    /* hash is unique by itself; the task in front keeps the index pages that one batch touches together */
    "CREATE TABLE program ("
    " id INTEGER PRIMARY KEY,"
    " task INTEGER NOT NULL REFERENCES task (id),"
    " hash BLOB NOT NULL,"
    " steps BLOB NOT NULL,"
    " UNIQUE (task, hash)) STRICT;"

    "CREATE TABLE measurement ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " task INTEGER NOT NULL REFERENCES task (id)," /* = program.task, for the index below */
    " program INTEGER NOT NULL REFERENCES program (id),"
    " variant INTEGER NOT NULL REFERENCES task_variant (id),"
    " digest INTEGER NOT NULL," /* of costs as text, error_no, timestamp: tells duplicates */
    " min_cost REAL,"           /* NULL: a failure */
    " error_no INTEGER NOT NULL,"
    " all_cost REAL NOT NULL,"
    " timestamp REAL NOT NULL,"
    " costs BLOB NOT NULL," /* little-endian float64 */
    " agent TEXT,"
    " received INTEGER NOT NULL,"
    " UNIQUE (hardware, program, digest)) STRICT;"
    "CREATE INDEX measurement_hardware ON measurement (hardware);"
    "CREATE INDEX measurement_task ON measurement (hardware, task);"

    /* sums over measurement, kept by the writer in the same transaction */
    "CREATE TABLE hardware_task ("
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " task_id TEXT NOT NULL REFERENCES task (task_id),"
    " programs INTEGER NOT NULL,"
    " measurements INTEGER NOT NULL,"
    " failures INTEGER NOT NULL,"
    " best_cost REAL,"
    " best INTEGER," /* measurement.id; no foreign key, it would cost a scan per deleted measurement */
    " PRIMARY KEY (hardware, task_id)) STRICT, WITHOUT ROWID;"

    "CREATE TABLE lease ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " token TEXT NOT NULL UNIQUE,"
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " agent TEXT NOT NULL,"
    " created INTEGER NOT NULL,"
    " expires INTEGER NOT NULL) STRICT;"
    "CREATE INDEX lease_hardware ON lease (hardware);"
    "CREATE INDEX lease_expires ON lease (expires);"

    "CREATE TABLE candidate ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " program INTEGER NOT NULL REFERENCES program (id),"
    " variant INTEGER NOT NULL REFERENCES task_variant (id),"
    " state TEXT NOT NULL CHECK (state IN ('pooled', 'selected', 'leased', 'measured')),"
    " repeat INTEGER NOT NULL,"
    " score REAL, r REAL, d REAL, u REAL,"
    " lease INTEGER REFERENCES lease (id),"
    " created INTEGER NOT NULL,"
    " UNIQUE (hardware, program)) STRICT;"
    "CREATE INDEX candidate_state ON candidate (hardware, state, score);"
    "CREATE INDEX candidate_lease ON candidate (lease);"

    "CREATE TABLE job ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " kind TEXT NOT NULL,"
    " hardware TEXT NOT NULL,"
    " state TEXT NOT NULL,"
    " params TEXT,"
    " result TEXT,"
    " error TEXT,"
    " created INTEGER NOT NULL,"
    " started INTEGER NOT NULL,"
    " finished INTEGER NOT NULL) STRICT;"
    "CREATE INDEX job_hardware ON job (hardware);"
    "CREATE INDEX job_state ON job (state);"

    "CREATE TABLE evaluation ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " model INTEGER NOT NULL REFERENCES model (id),"
    " job INTEGER NOT NULL,"
    " created INTEGER NOT NULL,"
    " result TEXT NOT NULL) STRICT;"
    "CREATE INDEX evaluation_hardware ON evaluation (hardware);"
    "CREATE INDEX evaluation_model ON evaluation (model);";

static const char schema_2[] =
    /* only those of the model's present calibration */
    "CREATE TABLE task_offset ("
    " model INTEGER NOT NULL REFERENCES model (id),"
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " task_id TEXT NOT NULL,"
    " ln_offset REAL NOT NULL,"
    " programs INTEGER NOT NULL,"
    " measurements INTEGER NOT NULL,"
    " PRIMARY KEY (model, hardware, task_id)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX task_offset_hardware ON task_offset (hardware);";

/* The pool of candidates. No version before this one wrote to the first two tables. */
static const char schema_3[] =
    "DROP TABLE candidate;"
    "DROP TABLE lease;"

    "CREATE TABLE lease ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " token TEXT NOT NULL UNIQUE,"
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " agent TEXT NOT NULL,"
    " open INTEGER NOT NULL,"    /* candidates that it holds; the row goes with the last of them */
    " ttl INTEGER NOT NULL,"     /* milliseconds */
    " created INTEGER NOT NULL," /* unix milliseconds, as is the next */
    " expires INTEGER NOT NULL) STRICT;"
    "CREATE INDEX lease_agent ON lease (hardware, agent);"
    "CREATE INDEX lease_expires ON lease (expires);"

    "CREATE TABLE candidate ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " program INTEGER NOT NULL REFERENCES program (id),"
    " variant INTEGER NOT NULL REFERENCES task_variant (id),"
    " state TEXT NOT NULL CHECK (state IN ('pooled', 'selected', 'leased', 'measured', 'failed')),"
    " repeat INTEGER NOT NULL," /* measurements that the program shall have on the hardware */
    " selection INTEGER,"       /* the job that chose it last; not a foreign key: jobs may go first */
    " turn INTEGER,"            /* its place among the waiting ones of its task, 0 the highest score */
    " score REAL, r REAL, d REAL, u REAL,"
    " lease INTEGER,"            /* lease.id */
    " created INTEGER NOT NULL," /* unix milliseconds */
    " UNIQUE (hardware, program)) STRICT;"
    "CREATE INDEX candidate_hardware ON candidate (hardware);"
    "CREATE INDEX candidate_state ON candidate (hardware, state);"
    "CREATE INDEX candidate_queue ON candidate (hardware, turn, score DESC) WHERE state = 'selected';"
    "CREATE INDEX candidate_lease ON candidate (lease, score DESC) WHERE lease IS NOT NULL;"

    /* sums over candidate, kept by the writer in the same transaction. No triggers and no foreign key above: either
     * makes SQLite keep a journal per statement, which within a savepoint costs more with every row */
    "CREATE TABLE candidate_count ("
    " hardware INTEGER NOT NULL,"
    " state TEXT NOT NULL,"
    " n INTEGER NOT NULL,"
    " PRIMARY KEY (hardware, state)) STRICT, WITHOUT ROWID;";

/* What kinds of hardware know of each other. */
static const char schema_4[] =
    "ALTER TABLE family ADD COLUMN kind TEXT;" /* of its hardware: knowledge of CPUs and GPUs never mixes */
    "UPDATE family SET kind = (SELECT CASE min(h.kind) WHEN max(h.kind) THEN min(h.kind) END FROM hardware h "
    "WHERE h.family = family.id);"
    "ALTER TABLE hardware ADD COLUMN policy TEXT;" /* JSON: when to retrain by itself; NULL: never */

    /* programs by which a knowledge base is asked whether it still knows this hardware; never trained on */
    "CREATE TABLE probe ("
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " program INTEGER NOT NULL REFERENCES program (id),"
    " PRIMARY KEY (hardware, program)) STRICT, WITHOUT ROWID;"

    /* what the source gate found about another hardware's model on this one's measurements */
    "CREATE TABLE transfer ("
    " hardware INTEGER NOT NULL REFERENCES hardware (id),"
    " source INTEGER NOT NULL REFERENCES hardware (id),"
    " gate TEXT NOT NULL,"
    " mean REAL, lower REAL," /* concordance; NULL: too few programs to tell */
    " tasks INTEGER NOT NULL,"
    " programs INTEGER NOT NULL,"
    " reason TEXT NOT NULL,"
    " created INTEGER NOT NULL," /* unix seconds */
    " PRIMARY KEY (hardware, source)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX transfer_source ON transfer (source);";

/* The way back to the model that answered before. */
static const char schema_5[] =
    "ALTER TABLE model ADD COLUMN activated INTEGER;" /* unix ms, the last time; NULL: it never answered by itself */
    "UPDATE model SET activated = created * 1000 WHERE id IN (SELECT active_model FROM hardware "
    "UNION ALL SELECT kb_model FROM family);";

const struct st_migration st_migrations[] = {
    {1, schema_1}, {2, schema_2}, {3, schema_3}, {4, schema_4}, {5, schema_5},
};
const int st_migrations_n = sizeof st_migrations / sizeof *st_migrations;
_Static_assert(sizeof st_migrations / sizeof *st_migrations == ST_SCHEMA_VERSION, "one step per schema version");

static int apply(struct st_db *db, const struct st_migration *m, struct tp_err *e)
{
    struct tp_buf stamp = {0};
    int rc = st_db_exec(db, "BEGIN IMMEDIATE", e);
    if (rc < 0)
        return rc;
    rc = st_db_exec(db, m->sql, e);
    if (rc < 0)
        goto out;
    tp_buf_printf(&stamp, "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", (int)ST_APPLICATION_ID,
                  m->version);
    tp_buf_putc(&stamp, '\0');
    rc = stamp.oom ? tp_fail(e, TP_E_NO_MEMORY, "no memory to migrate the database") : st_db_exec(db, stamp.p, e);
out:
    if (rc < 0 && !sqlite3_get_autocommit(db->h))
        st_db_exec(db, "ROLLBACK", NULL);
    tp_buf_free(&stamp);
    return rc;
}

/* A database is ours by its application id. One without any table is a file that was just made. */
static int identify(struct st_db *db, struct tp_err *e)
{
    int64_t app = 0, version = 0, tables = 0;
    int rc = st_db_pragma(db, "PRAGMA application_id", &app, e);
    if (rc == 0)
        rc = st_db_pragma(db, "PRAGMA user_version", &version, e);
    if (rc == 0)
        rc = st_db_pragma(db, "SELECT count(*) FROM sqlite_schema", &tables, e);
    if (rc < 0) /* not a database at all is the one error here that is not about the disk */
        return (sqlite3_errcode(db->h) & 0xff) == SQLITE_NOTADB
                   ? tp_fail(e, TP_E_CONFIG, "tcld.db in the state directory is not a tcld database")
                   : rc;
    if (app != ST_APPLICATION_ID && (app || version || tables))
        return tp_fail(e, TP_E_CONFIG, "tcld.db in the state directory is the database of another program");
    return 0;
}

int st_migrate(struct st_db *db, const struct st_migration *m, int n, struct tp_err *e)
{
    int64_t version = 0;
    int rc = identify(db, e);
    if (rc == 0)
        rc = st_db_pragma(db, "PRAGMA user_version", &version, e);
    if (rc < 0)
        return rc;
    if (version > m[n - 1].version)
        return tp_fail(e, TP_E_NEWER_SCHEMA, "the database has schema %lld, this tcld knows up to %d",
                       (long long)version, m[n - 1].version);
    for (int i = 0; i < n && rc == 0; i++)
        if (m[i].version > version)
            rc = apply(db, &m[i], e);
    return rc;
}
