/* sherd._sherd: Sherd's router, shard builder, publisher and reader for Python. The package sherd around it has the classes that users see. */
#include "pysherd.h"

static int add(PyObject *module, const char *name, PyObject *type)
{
    if (type && PyModule_AddObject(module, name, type) == 0) return 0;
    Py_XDECREF(type);
    return -1;
}

static int fill(PyObject *module)
{
    if (add(module, "Router", pyrouter_type()) != 0) return -1;
    if (add(module, "Builder", pybuilder_type()) != 0) return -1;
    if (add(module, "Publication", pypublish_type()) != 0) return -1;
    if (add(module, "Reader", pyreader_type()) != 0) return -1;
    return add(module, "Cursor", pyreader_cursor_type());
}

PyMODINIT_FUNC PyInit__sherd(void);

PyMODINIT_FUNC PyInit__sherd(void)
{
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)fill}, {0}};
    static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, .m_name = "sherd._sherd", .m_doc = "The parts of the package sherd that are written in C.", .m_slots = slots};
    return PyModuleDef_Init(&def);
}
